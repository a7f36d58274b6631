#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "coverage.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/compute/backend.hpp"
#include "flotilla/compute/gpu_rates.hpp"
#include "flotilla/mpi/device_memory.hpp"
#include "flotilla/mpi/session.hpp"
#include "flotilla/nccl/library.hpp"
#include "flotilla/topology/topology.hpp"
#include "flotilla/ucx/worker.hpp"
#include "freshness.hpp"
#include "rank_resources.hpp"
#include "throttling.hpp"

namespace flotilla::probe {
namespace {

std::string up_to(const std::string& line, char end) { return line.substr(0, line.find(end)); }

/// Threads are the devices' affair, not the software's.
std::string without_threads(const std::string& description) {
  const auto comma = description.rfind(", ");
  if (comma == description.npos) return description;
  const auto count = std::string_view{description}.substr(comma + 2);
  const auto digits = std::min(count.find_first_not_of("0123456789"), count.size());
  const bool threads = digits > 0 && (count.substr(digits) == " thread" || count.substr(digits) == " threads");
  return threads ? description.substr(0, comma) : description;
}

/// "cuBLASLt 13.1.0, cuDNN 9.19.0, driver of CUDA 13.0 (580.65.06)".
std::string gpu_software(const ProbeRequest& request) {
  const bool may_use_cudnn = request.device.attention != compute::AttentionKernel::flotilla && compute::has_attention_library();
  return text(compute::product_library(), may_use_cudnn ? text(", ", compute::attention_library()) : "", ", driver of ",
              gpu::driver_name(gpu::presence()));
}

/// "; NCCL 2.28.9".
std::string collectives_software() { return nccl::presence().any() ? "; " + nccl::library_description() : std::string{}; }

bool on_gpu(const ProbeRequest& request) { return request.device.kind == cluster::DeviceKind::gpu; }

std::string software_here(const ProbeRequest& request) {
  const compute::Setup setup{request.model, request.length, 1, 0, request.precisions.front(), 1, 0};
  return text(
      on_gpu(request) ? gpu_software(request) + collectives_software() : without_threads(compute::make_backend(setup)->description()), "; ",
      up_to(mpi::library_version(), ','), "; ", ucx::library_version(), "; ", topology::library_version(), "; g++ ", __VERSION__);
}

RankResources facts_here(const ProbeRequest& request) {
  check(request);
  const topology::NodeTopology node = topology::this_node();
  FLOTILLA_REQUIRE(!node.usable.empty(), ErrorKind::unavailable, "this process may not run on any CPU that hwloc knows of");
  RankResources facts{node.cpu_model,        {node.usable, node.limits.cpus},
                      node.allowed,          node.last_level_cache,
                      node.memory_available, request.memory_limit,
                      request.threads,       request.zone,
                      software_here(request)};
  if (!on_gpu(request)) return facts;
  const auto gpu = gpu::DeviceContext::open(request.device.ordinal).facts();
  facts.gpu_name = gpu.name;
  facts.gpu_uuid = gpu.uuid;
  facts.gpu_memory = gpu.memory;
  facts.gpu_tf32 = request.device.tf32;
  facts.nccl = nccl::presence().any();
  facts.device_mpi = mpi::why_no_device_memory().empty();
  return facts;
}

/// Ranks by host, in rank order.
std::map<std::string, std::vector<std::size_t>> by_host(const comm::World& world) {
  std::map<std::string, std::vector<std::size_t>> hosts;
  for (int r = 0; r < world.size(); ++r) hosts[world.host(Rank{r})].push_back(static_cast<std::size_t>(r));
  return hosts;
}

cluster::Device device(const RankResources& facts, Rank rank, const std::string& host, int local_rank,
                       const std::vector<topology::CpuShare>& neighbours, int sharers) {
  const int threads = facts.threads > 0 ? facts.threads : topology::threads_per_rank(neighbours, local_rank);
  if (!facts.gpu_name.empty()) return {rank, gpu_type_name(facts.gpu_name, sharers, facts.gpu_tf32), host, facts.zone, local_rank, threads};
  // A quota of less than the threads could use makes another device of the same CPU.
  const double quota = facts.cpus.cpu_limit / static_cast<double>(neighbours.size());
  const bool held_back = quota > 0 && quota < threads;
  const std::string share = held_back ? text("@", static_cast<int>(std::lround(100 * quota)), "%") : "";
  return {rank, cpu_type_name(facts.cpu_model, threads) + share, host, facts.zone, local_rank, threads};
}

/// One text where all ranks run the same; otherwise every kind of rank shows.
std::string software_of_all(const std::vector<RankResources>& facts) {
  std::set<std::string> different;
  for (const auto& f : facts) different.insert(f.software);
  std::string all;
  for (const auto& s : different) all += (all.empty() ? "" : " | ") + s;
  return all;
}

/// CPUs' worth of time that the ranks of a host have together.
double cpus_of(const std::vector<topology::CpuShare>& ranks) {
  std::set<int> all;
  double limit = 0;
  for (const auto& rank : ranks) {
    all.insert(rank.usable.begin(), rank.usable.end());
    limit = std::max(limit, rank.cpu_limit);
  }
  const auto count = static_cast<double>(all.size());
  return limit > 0 ? std::min(limit, count) : count;
}

/// Its host's processors do not hold it back.
void describe_gpu(const RankResources& facts, std::size_t rank, Discovery& found) {
  const Bytes share{facts.gpu_memory.count / found.sharers[rank]};
  found.memory[rank] = facts.memory_limit.count > 0 ? std::min(facts.memory_limit, share) : share;
  found.gpus[rank] = text(facts.gpu_name, ", ", up_to(facts.software, ';'));
  found.least_throttling[rank] = 1;
}

/// Where ranks compute on as many threads as they may, and a launcher lets them have fewer than the job was granted; else empty.
std::string idle_threads(const std::string& host, const std::vector<topology::CpuShare>& shares, const RankResources& first) {
  const auto bound = topology::bound_threads(shares, first.granted_cpus);
  if (first.threads > 0 || !first.gpu_name.empty() || !bound.some_idle()) return {};
  return text("the ranks of ", host, " may use ", bound.used, " of ", bound.granted,
              " hardware threads: the launcher binds them to cores; write ", topology::unbind);
}

Discovery describe(const comm::World& world, const ProbeRequest& request, const std::vector<RankResources>& facts) {
  Discovery found;
  found.devices.resize(facts.size());
  found.memory.resize(facts.size());
  found.cache.resize(facts.size());
  found.crowded.resize(facts.size());
  found.least_throttling.resize(facts.size());
  found.host_memory.resize(facts.size());
  found.gpus.resize(facts.size());
  found.sharers.resize(facts.size(), 1);
  for (int r = 0; r < static_cast<int>(facts.size()); ++r) {
    if (facts[static_cast<std::size_t>(r)].nccl) found.nccl.push_back(Rank{r});
    if (facts[static_cast<std::size_t>(r)].device_mpi) found.device_mpi.push_back(Rank{r});
  }
  for (const auto& [host, ranks] : by_host(world)) {
    std::vector<topology::CpuShare> shares;
    for (std::size_t r : ranks) shares.push_back(facts[r].cpus);
    for (std::size_t local = 0; local < ranks.size(); ++local) {
      const std::size_t r = ranks[local];
      const auto same_gpu = [&](std::size_t other) { return !facts[r].gpu_uuid.empty() && facts[other].gpu_uuid == facts[r].gpu_uuid; };
      found.sharers[r] = std::max(1, static_cast<int>(std::ranges::count_if(ranks, same_gpu)));
      found.devices[r] = device(facts[r], Rank{static_cast<int>(r)}, host, static_cast<int>(local), shares, found.sharers[r]);
      const Bytes share{facts[r].memory_available.count / static_cast<std::int64_t>(ranks.size())};
      found.host_memory[r] = share;
      found.least_throttling[r] = least_throttling(found.devices[r].threads, facts[r].cpus.cpu_limit);
      found.cache[r] = {facts[r].last_level_cache.count / static_cast<std::int64_t>(ranks.size())};
      found.memory[r] = facts[r].memory_limit.count > 0 ? facts[r].memory_limit : share;
      if (!facts[r].gpu_name.empty()) describe_gpu(facts[r], r, found);
    }
    if (found.idle_threads.empty()) found.idle_threads = idle_threads(host, shares, facts[ranks.front()]);
    int threads = 0;
    for (std::size_t r : ranks) threads += found.devices[r].threads;
    for (std::size_t r : ranks) found.crowded[r] = found.gpus[r].empty() && threads > cpus_of(shares) ? 1 : 0;
  }
  found.software = software_of_all(facts);
  found.model_fingerprint = model_fingerprint(request.model, request.length);
  return found;
}

}  // namespace

Discovery discover(const comm::World& world, const ProbeRequest& request) {
  const RankResources mine = comm::agree_on(
      world, "describing this node", [&] { return facts_here(request); }, request.deadline);
  const auto texts = mpi::all_gather_strings(world.control(), to_text(mine), request.deadline);
  return comm::agree_on(
      world, "reading the other ranks' descriptions",
      [&] {
        std::vector<RankResources> facts;
        for (const auto& t : texts) facts.push_back(facts_from_text(t));
        return describe(world, request, facts);
      },
      request.deadline);
}

}  // namespace flotilla::probe
