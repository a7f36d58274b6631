#include "connections.hpp"

#include <algorithm>
#include <string>

#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/comm/device_groups.hpp"
#include "flotilla/compute/kernel_image.hpp"
#include "flotilla/nccl/library.hpp"

namespace flotilla::train {
namespace {

constexpr Seconds to_give_up{5};
constexpr const char* no_device = "-";

bool for_devices(const program::Collective& collective) { return collective.kind != program::CollectiveKind::reduce_scalars; }

/// For a GPU on which a group forms.
comm::OrderedSum ordered_sum_on(const gpu::Device* gpu) {
  return gpu == nullptr ? comm::OrderedSum{} : comm::make_ordered_sum(*gpu, compute::kernel_image(gpu->facts()));
}

}  // namespace

Connections::Connections(const comm::World& active, const program::Program& training, const program::Program* evaluation,
                         const gpu::Device* gpu, const Options& options)
    : active_{active}, deadline_{options.deadline}, share_{options.nccl_share} {
  auto groups = training.groups;
  find_devices(options.nccl ? gpu : nullptr);
  add_pairs(training, groups);
  if (evaluation != nullptr) add_pairs(*evaluation, groups);
  groups_ = comm::form(active, groups, deadline_);
  connected_.resize(groups.size());
  if (std::ranges::count(has_device_, true) > 1) connect_devices(training, groups, gpu);
}

Connections::~Connections() {
  try {
    for (const auto& group : device_groups_)
      if (group) group->communicator().leave();
  } catch (const Error&) {
    give_up();
  }
}

/// One line where GPUs have no NCCL to connect them.
void Connections::find_devices(const gpu::Device* gpu) {
  const auto all = mpi::all_gather_strings(active_.control(), gpu == nullptr ? no_device : nccl::presence().why_none, deadline_);
  for (const auto& word : all) has_device_.push_back(word.empty());
  const auto without = std::ranges::find_if(all, [](const auto& word) { return !word.empty() && word != no_device; });
  const auto on_cpus = std::ranges::count(all, std::string{no_device});
  if (without == all.end() || all.size() - static_cast<std::size_t>(on_cpus) < 2 || active_.rank() != Rank{0}) return;
  log::warning("GPUs exchange through the hosts' memory, by MPI, where NCCL is missing: ",
               active_.name(Rank{static_cast<int>(without - all.begin())}), ": ", *without);
}

void Connections::add_pairs(const program::Program& program, std::vector<program::Group>& groups) {
  for (int from = 0; from < static_cast<int>(program.ranks.size()); ++from) {
    const auto& binding = program.ranks[static_cast<std::size_t>(from)];
    if (binding.rank_class < 0 || !has_device_[static_cast<std::size_t>(from)]) continue;
    for (const auto& instruction : program.classes[static_cast<std::size_t>(binding.rank_class)].instructions) {
      if (!instruction.sends()) continue;
      const Rank to = binding.peers[static_cast<std::size_t>(instruction.as<program::MessageEnd>()->peer)];
      if (!has_device_[to.index()] || (share_ && !share_->pairs.contains({from, to.value})) ||
          !pairs_.emplace(std::pair{from, to.value}, static_cast<int>(groups.size())).second)
        continue;
      groups.push_back({program::Group::Kind::pair, {Rank{from}, to}});
    }
  }
}

/// Groups that sum or gather on GPUs alone, and all pairs.
std::vector<bool> Connections::wanted(const program::Program& training, const std::vector<program::Group>& groups) const {
  std::vector<bool> wanted(groups.size());
  for (std::size_t r = 0; r < training.ranks.size(); ++r) {
    const auto& binding = training.ranks[r];
    if (binding.rank_class < 0 || !has_device_[r]) continue;
    for (const auto& instruction : training.classes[static_cast<std::size_t>(binding.rank_class)].instructions)
      if (const auto* collective = instruction.as<program::Collective>(); collective != nullptr && for_devices(*collective))
        wanted[static_cast<std::size_t>(binding.groups[static_cast<std::size_t>(collective->group)])] = true;
  }
  const auto has_device = [&](Rank rank) { return has_device_[rank.index()]; };
  for (std::size_t g = 0; g < training.groups.size(); ++g)
    wanted[g] = wanted[g] && (!share_ || share_->groups.at(g)) && std::ranges::all_of(training.groups[g].members, has_device);
  for (const auto& [ends, group] : pairs_) wanted[static_cast<std::size_t>(group)] = true;
  return wanted;
}

void Connections::connect_devices(const program::Program& training, const std::vector<program::Group>& groups, const gpu::Device* gpu) {
  device_groups_ = comm::form_device_groups(active_, groups_, wanted(training, groups), gpu, ordered_sum_on(gpu), deadline_);
  std::string mine;
  for (const auto& group : device_groups_) mine += group ? '1' : '0';
  for (const auto& theirs : mpi::all_gather_strings(active_.control(), mine, deadline_))
    for (std::size_t g = 0; g < groups.size(); ++g) connected_[g] = connected_[g] || theirs[g] == '1';
}

int Connections::group_of(const program::Program& program, Rank rank, const program::Instruction& instruction) const {
  const auto& binding = program.ranks[rank.index()];
  if (const auto* collective = instruction.as<program::Collective>())
    return for_devices(*collective) ? binding.groups[static_cast<std::size_t>(collective->group)] : -1;
  const auto* message = instruction.as<program::MessageEnd>();
  if (message == nullptr) return -1;
  const int peer = binding.peers[static_cast<std::size_t>(message->peer)].value;
  const auto pair = pairs_.find(message->sends() ? std::pair{rank.value, peer} : std::pair{peer, rank.value});
  return pair == pairs_.end() ? -1 : pair->second;
}

std::string Connections::description() const {
  const auto here = std::ranges::count_if(device_groups_, [](const auto& group) { return group != nullptr; });
  return here == 0 ? std::string{} : text("; ", nccl::library_description(), ", ", here, here == 1 ? " group" : " groups", " of GPUs");
}

program::IsLaunched Connections::launched(const program::Program& program) const {
  return [this, &program](Rank rank, const program::Instruction& instruction) {
    const int group = group_of(program, rank, instruction);
    return group >= 0 && connected_[static_cast<std::size_t>(group)];
  };
}

comm::DeviceGroup& Connections::device_group(const program::Program& program, const program::Instruction& instruction) const {
  return *device_groups_.at(static_cast<std::size_t>(group_of(program, active_.rank(), instruction)));
}

void Connections::give_up() noexcept {
  std::vector<nccl::Communicator> all;
  for (const auto& group : device_groups_)
    if (group) all.push_back(group->communicator());
  if (!nccl::abort_all(all, to_give_up)) log::error("NCCL does not give up its communicators: the GPU hangs; see nvidia-smi and dmesg");
}

}  // namespace flotilla::train
