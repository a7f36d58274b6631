#include "connections.hpp"

#include <algorithm>
#include <string>

#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/cluster/transports.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/comm/device_groups.hpp"
#include "flotilla/compute/kernel_image.hpp"
#include "flotilla/mpi/device_memory.hpp"
#include "flotilla/nccl/library.hpp"

namespace flotilla::train {
namespace {

using cluster::Transport;

constexpr Seconds to_give_up{5};
constexpr const char* no_device = "-";

bool for_devices(const program::Collective& collective) { return collective.kind != program::CollectiveKind::reduce_scalars; }

/// Why a rank on a GPU has no such transport; empty: it has.
std::string why_without(Transport transport) {
  return transport == Transport::nccl ? nccl::presence().why_none : mpi::why_no_device_memory();
}

/// For a GPU on which a group forms.
comm::OrderedSum ordered_sum_on(const gpu::DeviceContext* gpu) {
  return gpu == nullptr ? comm::OrderedSum{} : comm::make_ordered_sum(*gpu, compute::kernel_image(gpu->facts()));
}

}  // namespace

Connections::Connections(const comm::World& active, const program::Program& training, const program::Program* evaluation,
                         const gpu::DeviceContext* gpu, const Options& options)
    : active_{active}, deadline_{options.deadline}, transport_{options.transport}, transports_{options.transports} {
  auto groups = training.groups;
  for (const auto transport : cluster::device_transports) find_devices(transport, gpu);
  add_pairs(training, groups);
  if (evaluation != nullptr) add_pairs(*evaluation, groups);
  groups_ = comm::form(active, groups, deadline_);
  connected_.resize(groups.size(), Transport::host);
  connect_devices(training, groups, gpu);
}

Connections::~Connections() {
  try {
    for (const auto& group : device_groups_)
      if (group) group->communicator().leave();
  } catch (const Error&) {
    give_up();
  }
}

bool Connections::wants(Transport transport) const {
  if (!transports_) return transport == transport_;
  return std::ranges::count(transports_->groups, transport) > 0 ||
         std::ranges::any_of(transports_->pairs, [&](const auto& pair) { return pair.second == transport; });
}

Transport Connections::chosen_for(std::size_t group) const { return transports_ ? transports_->groups.at(group) : transport_; }

Transport Connections::chosen_for(std::pair<int, int> ends) const {
  if (!transports_) return transport_;
  const auto found = transports_->pairs.find(ends);
  return found == transports_->pairs.end() ? Transport::host : found->second;
}

/// One line where GPUs lack what the transport takes. Who asks for MPI on device memory by name gets nothing else.
void Connections::find_devices(Transport transport, const gpu::DeviceContext* gpu) {
  auto& has = has_[static_cast<std::size_t>(transport)];
  has.assign(static_cast<std::size_t>(active_.size()), false);
  if (!wants(transport)) return;
  const auto all = mpi::all_gather_strings(active_.control(), gpu == nullptr ? no_device : why_without(transport), deadline_);
  std::transform(all.begin(), all.end(), has.begin(), [](const auto& word) { return word.empty(); });
  const auto without = std::ranges::find_if(all, [](const auto& word) { return !word.empty() && word != no_device; });
  const auto on_cpus = std::ranges::count(all, std::string{no_device});
  if (without == all.end() || all.size() - static_cast<std::size_t>(on_cpus) < 2) return;
  const auto missing = text(active_.name(Rank{static_cast<int>(without - all.begin())}), ": ", *without);
  if (transport == Transport::device_mpi && !transports_)
    throw comm::AgreedError{ErrorKind::unavailable,
                            text(missing, "; load an MPI library that does, or choose --comm.transport auto, nccl or mpi")};
  if (active_.rank() == Rank{0})
    log::warning("GPUs exchange through the hosts' memory, by MPI, where ", cluster::in_words(transport), " is missing: ", missing);
}

bool Connections::reaches(Transport transport, const std::vector<Rank>& ranks) const {
  const auto& has = has_[static_cast<std::size_t>(transport)];
  return transport != Transport::host && std::ranges::all_of(ranks, [&](Rank rank) { return has[rank.index()]; });
}

void Connections::add_pairs(const program::Program& program, std::vector<program::Group>& groups) {
  for (int from = 0; from < static_cast<int>(program.ranks.size()); ++from) {
    const auto& binding = program.ranks[static_cast<std::size_t>(from)];
    if (binding.rank_class < 0) continue;
    for (const auto& instruction : program.classes[static_cast<std::size_t>(binding.rank_class)].instructions) {
      if (!instruction.sends()) continue;
      const Rank to = binding.peers[static_cast<std::size_t>(instruction.as<program::MessageEnd>()->peer)];
      const std::pair ends{from, to.value};
      if (!reaches(chosen_for(ends), {Rank{from}, to}) || !pairs_.emplace(ends, static_cast<int>(groups.size())).second) continue;
      groups.push_back({program::Group::Kind::pair, {Rank{from}, to}});
    }
  }
}

/// Groups that sum or gather on GPUs alone, and pairs.
std::vector<bool> Connections::wanted(const program::Program& training, const std::vector<program::Group>& groups,
                                      Transport transport) const {
  std::vector<bool> wanted(groups.size());
  for (const auto& binding : training.ranks) {
    if (binding.rank_class < 0) continue;
    for (const auto& instruction : training.classes[static_cast<std::size_t>(binding.rank_class)].instructions)
      if (const auto* collective = instruction.as<program::Collective>(); collective != nullptr && for_devices(*collective))
        wanted[static_cast<std::size_t>(binding.groups[static_cast<std::size_t>(collective->group)])] = true;
  }
  for (std::size_t g = 0; g < training.groups.size(); ++g)
    wanted[g] = wanted[g] && chosen_for(g) == transport && reaches(transport, training.groups[g].members);
  for (const auto& [ends, group] : pairs_) wanted[static_cast<std::size_t>(group)] = chosen_for(ends) == transport;
  return wanted;
}

void Connections::connect_devices(const program::Program& training, const std::vector<program::Group>& groups,
                                  const gpu::DeviceContext* gpu) {
  device_groups_.resize(groups.size());
  device_memory_groups_.resize(groups.size());
  const auto by = [&](Transport transport) { return std::ranges::count(has_[static_cast<std::size_t>(transport)], true) > 1; };
  if (by(Transport::nccl))
    device_groups_ =
        comm::form_device_groups(active_, groups_, wanted(training, groups, Transport::nccl), gpu, ordered_sum_on(gpu), deadline_);
  if (by(Transport::device_mpi))
    device_memory_groups_ = comm::form_device_memory_groups(active_, groups, groups_, wanted(training, groups, Transport::device_mpi), gpu,
                                                            ordered_sum_on(gpu), deadline_);
  std::string mine;
  for (std::size_t g = 0; g < groups.size(); ++g)
    mine += static_cast<char>(device_groups_[g] ? Transport::nccl : device_memory_groups_[g] ? Transport::device_mpi : Transport::host);
  for (const auto& theirs : mpi::all_gather_strings(active_.control(), mine, deadline_))
    for (std::size_t g = 0; g < groups.size(); ++g) connected_[g] = std::max(connected_[g], static_cast<Transport>(theirs[g]));
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
  const auto described = [](const auto& groups, const std::string& by) {
    const auto here = std::ranges::count_if(groups, [](const auto& group) { return group != nullptr; });
    return here == 0 ? std::string{} : text("; ", by, ", ", here, here == 1 ? " group" : " groups", " of GPUs");
  };
  return described(device_groups_, nccl::library_description()) +
         described(device_memory_groups_, std::string{cluster::in_words(Transport::device_mpi)});
}

program::IsLaunched Connections::launched(const program::Program& program) const {
  return [this, &program](Rank rank, const program::Instruction& instruction) {
    const int group = group_of(program, rank, instruction);
    return group >= 0 && connected_[static_cast<std::size_t>(group)] == Transport::nccl;
  };
}

bool Connections::on_device_memory(const program::Program& program, const program::Instruction& instruction) const {
  const int group = group_of(program, active_.rank(), instruction);
  return group >= 0 && device_memory_groups_[static_cast<std::size_t>(group)] != nullptr;
}

comm::ProcessGroup& Connections::device_memory_group(const program::Program& program, const program::Instruction& instruction) const {
  return *device_memory_groups_.at(static_cast<std::size_t>(group_of(program, active_.rank(), instruction)));
}

comm::DeviceGroup& Connections::device_group(const program::Program& program, const program::Instruction& instruction) const {
  return *device_groups_.at(static_cast<std::size_t>(group_of(program, active_.rank(), instruction)));
}

void Connections::give_up() noexcept {
  std::vector<nccl::NcclCommunicator> all;
  for (const auto& group : device_groups_)
    if (group) all.push_back(group->communicator());
  if (!nccl::abort_all(all, to_give_up)) log::error("NCCL does not give up its communicators: the GPU hangs; see nvidia-smi and dmesg");
}

}  // namespace flotilla::train
