#pragma once
#include <array>
#include <random>
#include <string>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/model/operations.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/program/runtime.hpp"
#include "support/random.hpp"

/// Made-up clusters and plans for the tests of the simulator and the planner.
namespace flotilla::fixture {

inline cluster::DeviceType device_type(const std::string& name, double gigaflops, double gigabytes_per_second, Bytes memory = {8LL << 30}) {
  return {name, cluster::DeviceKind::cpu, memory, {gigaflops * 1e9}, {2 * gigaflops * 1e9}, {gigabytes_per_second * 1e9}, "made up"};
}

/// A link of one piece.
inline cluster::Link link(cluster::LinkLevel level, const std::string& from, const std::string& to, double latency,
                          double bytes_per_second) {
  return {level, from, to, {{{0}, {latency}, {bytes_per_second}}}, 0.05};
}

/// `hosts` hosts h0, h1, ... with `per_host` devices each of one type, ranks in order of host; 1 GB/s inside a host, 0.1 GB/s between.
inline cluster::Profile uniform_cluster(int hosts, int per_host, const cluster::DeviceType& type = device_type("slow", 50, 10)) {
  cluster::Profile profile;
  profile.device_types = {type};
  for (int h = 0; h < hosts; ++h)
    for (int d = 0; d < per_host; ++d) profile.devices.push_back({Rank{h * per_host + d}, type.name, "h" + std::to_string(h), "", d, 1});
  profile.links = {link(cluster::LinkLevel::node, "any", "any", 5e-6, 1e9), link(cluster::LinkLevel::zone, "one", "other", 50e-6, 1e8)};
  return profile;
}

/// Our runtime on the cluster's nodes, as forecasts of plans see it.
inline program::Runtime placed(const cluster::Profile& profile) {
  program::Runtime runtime;
  runtime.placement = program::placement_of(profile.devices);
  return runtime;
}

/// The same cluster with network cards for everybody: messages never wait for each other.
inline cluster::Profile without_contention(cluster::Profile profile) {
  for (auto& link : profile.links) link.lanes = 1 << 20;
  return profile;
}

/// Measured times for every operation of `model`: an efficiency of its roofline that depends on the operation.
inline void measure(cluster::Profile& profile, const model::Config& model, int length, Precision precision, std::vector<int> degrees,
                    std::vector<int> sequences) {
  for (const auto& type : profile.device_types)
    for (int degree : degrees)
      for (int count : sequences)
        for (int o = 0; o < model::operation_count; ++o) {
          const auto operation = static_cast<model::Operation>(o);
          const model::LayerShape shape{count, length, degree, 0, precision};
          const double peak = precision == Precision::fp32 ? type.peak_fp32.value : type.peak_bf16.value;
          const double ideal = std::max(model::flops(model, shape, operation) / peak,
                                        static_cast<double>(model::traffic(model, shape, operation).count) / type.memory_bandwidth.value);
          profile.operation_times.push_back({type.name,
                                             std::string{model::to_string(operation)},
                                             degree,
                                             count,
                                             length,
                                             precision,
                                             {ideal * (1.2 + 0.1 * o) + 2e-6},
                                             0.02});
        }
}

using tests::between;

/// Cuts of `layers` into `pipeline` non-empty stages.
inline std::vector<int> random_cuts(std::mt19937_64& random, int layers, int pipeline) {
  std::vector<int> inner;
  for (int l = 1; l < layers; ++l) inner.push_back(l);
  std::shuffle(inner.begin(), inner.end(), random);
  std::vector<int> cuts{0, layers};
  cuts.insert(cuts.end(), inner.begin(), inner.begin() + pipeline - 1);
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

/// A random even plan on at most `most_ranks` ranks of the profile, device types filled in.
inline plan::Plan random_plan(std::mt19937_64& random, const cluster::Profile& profile, const model::Config& model, int length,
                              int most_ranks) {
  int data, pipeline, tensor;
  do {
    data = between(random, 1, 4), pipeline = between(random, 1, 4), tensor = between(random, 1, 4);
  } while (data * pipeline * tensor > most_ranks || pipeline > model.layers() || tensor > model.groups());
  const int batch = data * between(random, 1, 6) + between(random, 0, 3);
  const auto precision = random() % 2 ? Precision::fp32 : Precision::bf16;
  constexpr std::array schedules{plan::ScheduleKind::gpipe, plan::ScheduleKind::one_f_one_b, plan::ScheduleKind::zero_bubble};
  const auto schedule = schedules[random() % schedules.size()];
  plan::Plan plan = plan::even_plan(model, length, batch, precision, data, pipeline, tensor, between(random, 1, 4), schedule,
                                    random_cuts(random, model.layers(), pipeline));
  for (auto& stage : plan.stages) {
    stage.recompute = static_cast<plan::Recompute>(between(random, 0, 2));
    for (auto& replica : stage.replicas) replica.device_type = profile.devices.at(replica.devices.front().index()).type;
  }
  plan.sequence_parallel = random() % 2 != 0;
  return plan;
}

}  // namespace flotilla::fixture
