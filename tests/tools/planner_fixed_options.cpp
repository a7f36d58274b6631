// Whether fixing one option finds a better plan than leaving it open, over random pools: schedules, sequence parallelism, sharding,
// recomputation, tensor-parallel degrees, microbatches, numbers of stages and of replicas.
//
//   planner_fixed_options [--catalogue] [--first SEED] [--pools N] [--execution] [--most-worse SHARE]
//
// Pools are made up, or of the hardware catalogue. --execution: schedules, sequence parallelism and sharding alone. Exits with 1 where the
// open search is worse by more than --most-worse.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>

#include "fixed_options.hpp"
#include "flotilla/base/error.hpp"
#include "planner_adversary/catalogue_pools.hpp"

namespace {

using namespace flotilla;

struct Options {
  bool catalogue = false, execution = false;
  int first = 1, pools = 60;
  double most_worse = 1e9;
};

bool parse(int argc, char** argv, Options& o) {
  for (int a = 1; a < argc; ++a) {
    const std::string word = argv[a];
    const auto value = [&] { return a + 1 < argc ? argv[++a] : ""; };
    if (word == "--catalogue")
      o.catalogue = true;
    else if (word == "--execution")
      o.execution = true;
    else if (word == "--first")
      o.first = std::atoi(value());
    else if (word == "--pools")
      o.pools = std::atoi(value());
    else if (word == "--most-worse")
      o.most_worse = std::atof(value());
    else
      return false;
  }
  return o.pools > 0;
}

fixture::Instance instance(const Options& o, int seed) {
  fixture::Range range;
  range.devices_of_a_place = 8, range.devices = 40;
  return o.catalogue ? tools::catalogue_instance(seed) : fixture::random_instance(seed, range);
}

/// Nothing where the model or the runtime knows no such option.
std::optional<search::PlanAnswer> plan(const fixture::Instance& i) {
  try {
    return search::plan(i.request, simulate::ProgramForecaster{i.library, i.runtime, {}});
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) throw;
    return std::nullopt;
  }
}

std::string in_words(const plan::Plan& plan) {
  return plan::summary(plan) + (plan.sequence_parallel ? ", sequence parallel" : "") + (plan.shard_optimizer ? ", sharded" : "");
}

/// Of the open search, over the value with each option fixed; pools in which either finds nothing are left out.
void compare(const Options& o, int seed, std::vector<double>& ratios, double& milliseconds) {
  auto i = instance(o, seed);
  const auto begin = std::clock();
  const auto open = plan(i).value();
  milliseconds += 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  for (const fixture::FixedOption& option : o.execution ? fixture::execution_options() : fixture::fixed_options()) {
    i.request.constraints = option.constraints;
    const auto fixed = plan(i);
    if (!fixed || !fixed->best) continue;
    const double ratio = open.best ? open.best->value / fixed->best->value : 1e9;
    ratios.push_back(ratio);
    if (ratio <= 1.005) continue;
    std::printf("%d: %.2f %% worse than with %s; %s\n  open  %s\n  fixed %s\n", seed, 100 * (ratio - 1), option.name.c_str(),
                tools::in_words(i.request).c_str(), open.best ? in_words(open.best->plan).c_str() : "none",
                in_words(fixed->best->plan).c_str());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  if (!parse(argc, argv, o)) {
    std::fprintf(stderr, "planner_fixed_options [--catalogue] [--first SEED] [--pools N] [--execution] [--most-worse SHARE]\n");
    return 64;
  }
  std::vector<double> ratios;
  double milliseconds = 0;
  for (int seed = o.first; seed < o.first + o.pools; ++seed) compare(o, seed, ratios, milliseconds);
  std::ranges::sort(ratios);
  if (ratios.empty()) return 0;
  const auto share = [&](double ratio) {
    return 100.0 * static_cast<double>(std::ranges::upper_bound(ratios, ratio) - ratios.begin()) / static_cast<double>(ratios.size());
  };
  const auto at = [&](double part) { return 100 * (ratios[static_cast<std::size_t>(part * static_cast<double>(ratios.size() - 1))] - 1); };
  std::printf(
      "%zu pairs: open search as good in %.2f %%, within 0.5 %% in %.2f %%; 95 %% within %.2f %%, 99 %% within %.2f %%, worst %.2f %%; "
      "%.0f ms a pool\n",
      ratios.size(), share(1 + 1e-9), share(1.005), at(0.95), at(0.99), 100 * (ratios.back() - 1), milliseconds / o.pools);
  return ratios.back() <= 1 + o.most_worse ? 0 : 1;
}
