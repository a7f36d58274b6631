// What the planner proves of its answers, over random pools of the catalogue's types: the distribution of the gap between answer and bound,
// and what the bound takes.
//
//   planner_gap [pools] [first seed] [--all]      200 pools from seed 1 on unless said otherwise; --all: a line for each pool
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "bound/floor.hpp"
#include "candidate_plan.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/search/planner.hpp"

namespace {

using namespace flotilla;

constexpr int most_devices = 512;

struct Case {
  search::PlanRequest request;
  cluster::Profile library;
};

/// Up to 512 devices of up to three types in up to three zones; models from 124 million to 6.7 billion parameters.
class CaseMaker {
 public:
  explicit CaseMaker(std::uint64_t seed) : random_{seed} {}

  Case make() {
    Case made;
    auto& r = made.request;
    r.model = model::built_in(one_of<const char*>({"gpt2", "opt-350m", "gpt2-medium", "opt-1.3b", "opt-2.7b", "opt-6.7b"}));
    r.length = std::min(r.model.positions, one_of<int>({512, 1024, 2048}));
    r.global_batch = one_of<int>({128, 256, 512, 1024, 2048});
    r.precision = one_of<Precision>({Precision::fp32, Precision::bf16});
    const auto types = some_types();
    const int zones = pick(1, 3);
    int left = most_devices;
    for (const auto& type : types) {
      const int per_node = one_of<int>({4, 8});
      for (int z = 0; z < zones; ++z) {
        const int nodes = z == 0 ? pick(1, 24) : pick(0, 12), count = std::min(left, nodes * per_node);
        left -= count;
        if (count > 0) r.pool.push_back({type, "zone-" + std::to_string(z), count, per_node});
      }
    }
    made.library = cluster::complete_from_catalogue({}, files::built_in_catalogue(), types);
    return made;
  }

 private:
  int pick(int low, int high) { return low + static_cast<int>(random_() % static_cast<std::uint64_t>(high - low + 1)); }
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(pick(0, static_cast<int>(values.size()) - 1))];
  }
  std::vector<std::string> some_types() {
    std::vector<std::string> all{"A100-40", "V100-16", "A100-80", "H100", "L40S", "V100-32"};
    std::ranges::shuffle(all, random_);
    all.resize(static_cast<std::size_t>(pick(1, 3)));
    std::ranges::sort(all);
    return all;
  }
  std::mt19937_64 random_;
};

double cpu_ms(std::clock_t since) { return 1e3 * static_cast<double>(std::clock() - since) / CLOCKS_PER_SEC; }

/// The bound alone, from nothing.
double bound_ms(const Case& one) {
  using namespace search::pool;
  const auto runtime = program::runtime_named("flotilla");
  DevicePool device_pool{one.request, one.library};
  PlanEvaluator evaluator{device_pool, runtime};
  LayerCostTable layer_cost_table{device_pool, evaluator};
  const auto start = std::clock();
  search::bound::floor_of(device_pool, layer_cost_table, std::min(largest_microbatch, one.request.global_batch));
  return cpu_ms(start);
}

void print_shares(const char* what, std::vector<double> values, const char* unit) {
  std::ranges::sort(values);
  const auto at = [&](double share) {
    return values[std::min(values.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values.size())))];
  };
  std::printf("%s: least %.2f, a quarter %.2f, half %.2f, three quarters %.2f, 90 %% %.2f, most %.2f %s\n", what, at(0), at(0.25), at(0.5),
              at(0.75), at(0.9), at(1), unit);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool all = std::erase(words, "--all") > 0;
  const int pools = words.empty() ? 200 : std::atoi(words[0].c_str());
  const int first = words.size() < 2 ? 1 : std::atoi(words[1].c_str());
  std::vector<double> gaps, bound, search;
  int none = 0;
  for (int seed = first; seed < first + pools; ++seed) {
    const Case one = CaseMaker{static_cast<std::uint64_t>(seed)}.make();
    const auto start = std::clock();
    const simulate::ProgramForecaster forecaster{one.library, program::runtime_named("flotilla"), {}};
    const auto answer = search::plan(one.request, forecaster);
    const double searched = cpu_ms(start), proven = bound_ms(one);
    if (!answer.best) {
      ++none;
      continue;
    }
    gaps.push_back(100 * answer.bound_gap), bound.push_back(proven), search.push_back(searched);
    if (!all) continue;
    std::printf("%5d %6.2f %% %8.4f s %7.1f ms (bound %6.1f)  %s batch %d %s;", seed, gaps.back(), answer.best->value, searched, proven,
                one.request.model.name.c_str(), one.request.global_batch, to_string(one.request.precision).c_str());
    for (const auto& entry : one.request.pool) std::printf(" %d %s@%s", entry.count, entry.device_type.c_str(), entry.zone.c_str());
    std::printf(" | %s\n", plan::summary(answer.best->plan).substr(0, 160).c_str());
  }
  if (gaps.empty()) return 1;
  std::printf("%d pools, %d without a plan\n", pools, none);
  print_shares("gap", gaps, "%");
  print_shares("bound alone", bound, "CPU ms");
  print_shares("search and bound", search, "CPU ms");
  for (const double most : {1.0, 2.0, 5.0, 10.0, 20.0})
    std::printf("gap up to %4.1f %%: %5.1f %% of the pools\n", most,
                100.0 * static_cast<double>(std::ranges::count_if(gaps, [&](double gap) { return gap <= most; })) /
                    static_cast<double>(gaps.size()));
}
