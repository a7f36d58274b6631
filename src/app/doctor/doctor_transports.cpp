#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/doctor/doctor.hpp"
#include "app/doctor/rank_groups.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/cluster/transports.hpp"

namespace flotilla::app {
namespace {

using cluster::Transport;

/// Which hosts' GPUs lack a transport, and why.
struct Missing {
  std::set<std::string> hosts, reasons;
  bool any() const { return !hosts.empty(); }
};

Missing missing(const std::vector<RankFacts>& ranks, std::string RankFacts::*why_without) {
  Missing missing;
  for (const auto& rank : ranks)
    if (!rank.gpus.empty() && !(rank.*why_without).empty()) {
      missing.hosts.insert(rank.host);
      missing.reasons.insert(rank.*why_without);
    }
  return missing;
}

Finding without(Transport transport, const Missing& missing, Verdict verdict, const char* mend) {
  return {"transports", verdict, text("no ", cluster::in_words(transport), " between the GPUs of ", few(missing.hosts)),
          few(missing.reasons), mend};
}

}  // namespace

std::optional<Finding> judge_transports(const std::vector<RankFacts>& ranks, std::optional<Transport> wanted) {
  bool gpus = false;
  for (const auto& rank : ranks) gpus = gpus || !rank.gpus.empty();
  if (!gpus) return std::nullopt;
  const auto no_nccl = missing(ranks, &RankFacts::why_no_nccl), no_mpi = missing(ranks, &RankFacts::why_no_device_mpi);
  if (wanted == Transport::host)
    return Finding{"transports", Verdict::good, "the job wants the hosts' memory between GPUs", "comm.transport = \"mpi\"", ""};
  if (wanted == Transport::device_mpi && no_mpi.any())
    return without(Transport::device_mpi, no_mpi, Verdict::problem,
                   "load an MPI library that takes device memory, or choose --comm.transport auto, nccl or mpi");
  if (no_nccl.any() && (wanted == Transport::nccl || no_mpi.any()))
    return without(
        Transport::nccl, no_nccl, Verdict::warning,
        "install NCCL 2.22 or newer where the loader finds it (LD_LIBRARY_PATH); until then, GPUs exchange through the hosts' memory");
  std::string words;
  if (wanted != Transport::device_mpi && !no_nccl.any()) words = "NCCL";
  if (wanted != Transport::nccl && !no_mpi.any()) words += text(words.empty() ? "" : ", ", "MPI on device memory");
  if (!wanted) words += ", the hosts' memory";
  return Finding{"transports", Verdict::good, words + " between GPUs", wanted ? "as the job wants" : "the probe measures, the plan chooses",
                 ""};
}

}  // namespace flotilla::app
