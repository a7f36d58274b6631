#pragma once
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cluster_fixture.hpp"
#include "flotilla/simulate/forecaster.hpp"

/// Random plans scattered over hosts of one to four devices, with links from far too slow to far too fast.
namespace flotilla::fixture::scattered {

constexpr int length = 16;

struct Case {
  cluster::Profile profile;
  plan::Plan plan;
};

inline cluster::Profile random_cluster(std::mt19937_64& random, const model::Config& model) {
  auto profile = uniform_cluster(between(random, 2, 8), between(random, 1, 4));
  profile.device_types.push_back(device_type("fast", 50.0 * between(random, 1, 5), 20));
  for (auto& device : profile.devices)
    if (device.host == "h1" || device.host == "h3") device.type = "fast";
  for (auto& link : profile.links) {
    link.pieces[0].bandwidth.value *= std::pow(10, between(random, -2, 2));
    link.lanes = between(random, 1, 3);
  }
  measure(profile, model, length, random() % 2 ? Precision::fp32 : Precision::bf16, {1, 2}, {1, 2, 4});
  for (auto& time : profile.operation_times) time.time = time.time * std::pow(10, between(random, -1, 2));
  return profile;
}

inline void scatter(std::mt19937_64& random, plan::Plan& plan, const cluster::Profile& profile) {
  std::vector<Rank> ranks;
  for (int r = 0; r < plan::rank_count(plan); ++r) ranks.push_back(Rank{r});
  std::shuffle(ranks.begin(), ranks.end(), random);
  auto next = ranks.begin();
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas) {
      for (Rank& rank : replica.devices) rank = *next++;
      replica.device_type = profile.devices.at(replica.devices.front().index()).type;
    }
}

inline Case random_case(int seed) {
  std::mt19937_64 random{static_cast<std::uint64_t>(seed)};
  static const std::vector<std::string> models{"gpt2-tiny", "gpt2-mini", "opt-tiny", "opt-post-tiny"};
  const auto model = model::built_in(models[random() % models.size()]);
  Case c{random_cluster(random, model), {}};
  c.plan = random_plan(random, c.profile, model, length, std::min(static_cast<int>(c.profile.devices.size()), 16));
  if (random() % 2) scatter(random, c.plan, c.profile);
  return c;
}

inline double seconds(const cluster::Profile& profile, const plan::Plan& plan) {
  return simulate::ProgramForecaster{profile, {}, {}}.forecast(plan).iteration.value;
}

}  // namespace flotilla::fixture::scattered
