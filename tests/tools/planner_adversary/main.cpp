// A random local search over our own forecast against the planner's answers: what it gains, pool by pool.
//
//   planner_adversary [--made-up] [--first SEED] [--pools N] [--forecasts N] [--most-gain SHARE] [--most-mean SHARE] [--verbose]
//
// Pools are of the hardware catalogue, or made up with limits and other goals (--made-up). Exits with 1 where a gain is above --most-gain
// or the mean of all above --most-mean.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>

#include "attack.hpp"
#include "catalogue_pools.hpp"

namespace {

using namespace flotilla;

struct Options {
  bool made_up = false, verbose = false;
  int first = 1, pools = 20, forecasts = 1000;
  double most_gain = 1, most_mean = 1;
};

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

fixture::Instance instance(const Options& o, int seed) {
  fixture::Range range;
  range.restrictions = false;
  return o.made_up ? fixture::random_instance(seed, range) : tools::catalogue_instance(seed);
}

std::string execution(const plan::Plan& plan) {
  std::string words = plan::summary(plan);
  if (plan.sequence_parallel) words += ", sequence parallel";
  if (plan.shard_optimizer) words += ", sharded optimizer";
  return words;
}

double attack_one(const Options& o, int seed) {
  const auto i = instance(o, seed);
  const double begin = cpu_seconds();
  const auto answer = search::plan(i.request, simulate::ProgramForecaster{i.library, i.runtime, {}});
  const double ms = 1000 * (cpu_seconds() - begin);
  const auto result = tools::attack(i, answer, o.forecasts, seed);
  std::printf("%5d %6.2f %% %8.1f ms %6lld %12.6g  %s\n", seed, 100 * result.gain(), ms, static_cast<long long>(answer.considered),
              answer.best ? answer.best->value : 0.0, tools::in_words(i.request).c_str());
  if (o.verbose && result.gain() > 1e-4) {
    std::printf("      planner %s\n      better  %s\n      by", execution(result.answer_plan).c_str(), execution(result.best_plan).c_str());
    for (const auto& [name, gain] : result.by_change) std::printf(" %s %.2f %%", name.c_str(), 100 * gain);
    std::printf("\n");
  }
  std::fflush(stdout);
  return result.gain();
}

bool parse(int argc, char** argv, Options& o) {
  for (int a = 1; a < argc; ++a) {
    const std::string word = argv[a];
    const auto value = [&] { return a + 1 < argc ? argv[++a] : ""; };
    if (word == "--made-up")
      o.made_up = true;
    else if (word == "--verbose")
      o.verbose = true;
    else if (word == "--first")
      o.first = std::atoi(value());
    else if (word == "--pools")
      o.pools = std::atoi(value());
    else if (word == "--forecasts")
      o.forecasts = std::atoi(value());
    else if (word == "--most-gain")
      o.most_gain = std::atof(value());
    else if (word == "--most-mean")
      o.most_mean = std::atof(value());
    else
      return false;
  }
  return o.pools > 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  if (!parse(argc, argv, o)) {
    std::fprintf(
        stderr,
        "planner_adversary [--made-up] [--first SEED] [--pools N] [--forecasts N] [--most-gain SHARE] [--most-mean SHARE] [--verbose]\n");
    return 64;
  }
  std::vector<double> gains;
  for (int seed = o.first; seed < o.first + o.pools; ++seed) gains.push_back(attack_one(o, seed));
  std::ranges::sort(gains);
  const double mean = std::accumulate(gains.begin(), gains.end(), 0.0) / static_cast<double>(gains.size());
  const auto within = std::ranges::count_if(gains, [](double gain) { return gain <= 0.005; });
  std::printf("%zu pools: gains of mean %.3f %%, median %.3f %%, most %.2f %%; %lld within 0.5 %%\n", gains.size(), 100 * mean,
              100 * gains[gains.size() / 2], 100 * gains.back(), static_cast<long long>(within));
  return gains.back() <= o.most_gain && mean <= o.most_mean ? 0 : 1;
}
