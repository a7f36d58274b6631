#include <algorithm>
#include <optional>

#include "app/doctor/doctor.hpp"
#include "app/doctor/rank_groups.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/gpu/assignment.hpp"

namespace flotilla::app {
namespace {

/// What an idle device holds at most: the driver's own.
constexpr Bytes most_idle{1 << 30};

/// Finds what is wrong, or nothing.
using Judge = std::optional<Finding> (*)(const std::vector<RankFacts>&);

std::optional<Finding> fewer_than_given(const std::vector<RankFacts>& ranks) {
  std::set<std::string> hosts;
  int given = 0, there = 0;
  for (const auto& rank : ranks)
    if (rank.gpus_there < rank.gpus_given) {
      hosts.insert(rank.host);
      given = rank.gpus_given;
      there = rank.gpus_there;
    }
  if (hosts.empty()) return std::nullopt;
  return Finding{"gpus", there > 0 ? Verdict::problem : Verdict::warning,
                 text("Slurm gave ", given, " GPUs on ", few(hosts), " and ", there, " are there"),
                 text("device files /dev/nvidiaN that a rank sees", there > 0 ? "" : "; GPUs of another vendor have other names"),
                 "gres.conf and the driver of that node, by the administrator"};
}

std::optional<Finding> not_given(const std::vector<RankFacts>& ranks) {
  std::set<std::string> hosts;
  std::string visible;
  for (const auto& rank : ranks)
    if (rank.gpus_given == 0 && rank.gpus.empty() && !rank.gpus_visible.empty()) {
      hosts.insert(rank.host);
      visible = rank.gpus_visible;
    }
  if (hosts.empty()) return std::nullopt;
  return Finding{"gpus", Verdict::warning, text("CUDA_VISIBLE_DEVICES names GPUs on ", few(hosts), ", where Slurm gave none"),
                 text("CUDA_VISIBLE_DEVICES=", visible, ", from another component or a shell's start-up file"),
                 "unset CUDA_VISIBLE_DEVICES there"};
}

/// Device files are there, and the driver shows no device.
std::optional<Finding> without_driver(const std::vector<RankFacts>& ranks) {
  std::set<std::string> hosts;
  const RankFacts* last = nullptr;
  for (const auto& rank : ranks)
    if (rank.gpus_there > 0 && rank.gpus.empty()) {
      hosts.insert(rank.host);
      last = &rank;
    }
  if (hosts.empty()) return std::nullopt;
  return Finding{"gpus", last->gpus_given > 0 ? Verdict::problem : Verdict::warning,
                 text("the driver shows none of the GPUs of ", few(hosts)), last->why_no_gpu,
                 "nvidia-smi on that node shows what the driver finds"};
}

std::optional<Finding> without_kernels(const std::vector<RankFacts>& ranks) {
  std::set<std::string> hosts, names, reasons;
  for (const auto& rank : ranks)
    for (const auto& gpu : rank.gpus)
      if (!gpu.no_kernels.empty()) {
        hosts.insert(rank.host);
        names.insert(gpu.name);
        reasons.insert(gpu.no_kernels);
      }
  if (hosts.empty()) return std::nullopt;
  return Finding{"gpus", Verdict::problem, text("this Flotilla cannot compute on ", few(names), " of ", few(hosts)), few(reasons),
                 "docs/gpu.md, kernels"};
}

std::optional<Finding> shared(const std::vector<RankFacts>& ranks) {
  for (const auto& [host, members] : ranks_by_host(ranks)) {
    std::vector<gpu::RankView> views;
    gpu::DevicePlaces places;
    for (const auto r : members) {
      views.push_back({{}, ranks[r].usable});
      for (const auto& gpu : ranks[r].gpus) {
        views.back().visible.push_back(gpu.uuid);
        places[gpu.uuid] = gpu.near;
      }
    }
    const auto devices = gpu::shared_devices(views, gpu::assign_devices(views, places));
    if (devices.empty()) continue;
    const auto& [uuid, users] = *devices.begin();
    std::string names;
    for (const int user : users) names += text(names.empty() ? "" : ", ", members[static_cast<std::size_t>(user)]);
    return Finding{"gpus", Verdict::warning, text(users.size(), " ranks of ", host, " share one GPU"),
                   text("ranks ", names, " have ", uuid), "one rank per GPU: srun --ntasks-per-node=GPUS --gpus-per-task=1"};
  }
  return std::nullopt;
}

std::optional<Finding> in_use(const std::vector<RankFacts>& ranks) {
  for (const auto& rank : ranks)
    for (const auto& gpu : rank.gpus)
      if (gpu.used > most_idle)
        return Finding{"gpus", Verdict::warning, text(gpu.used, " of ", gpu.memory, " of a GPU of ", rank.host, " are in use by others"),
                       text(gpu.name, ", ", gpu.uuid), "nvidia-smi on that node names the processes"};
  return std::nullopt;
}

Finding what_is_there(const std::vector<RankFacts>& ranks) {
  std::map<std::string, std::set<std::string>> devices;  // name, uuids
  std::set<std::string> drivers;
  for (const auto& rank : ranks)
    for (const auto& gpu : rank.gpus) {
      devices[gpu.name].insert(gpu.uuid);
      drivers.insert(rank.gpu_driver);
    }
  if (devices.empty()) return {"gpus", Verdict::good, "none here, and none were requested", "", ""};
  std::string words;
  for (const auto& [name, uuids] : devices) words += text(words.empty() ? "" : ", ", uuids.size(), " x ", name);
  return {"gpus", Verdict::good, words, text("driver of ", few(drivers)), ""};
}

}  // namespace

Finding judge_gpus(const std::vector<RankFacts>& ranks) {
  for (const Judge judge : {&fewer_than_given, &not_given, &without_driver, &without_kernels, &shared, &in_use})
    if (auto finding = judge(ranks)) return *finding;
  return what_is_there(ranks);
}

}  // namespace flotilla::app
