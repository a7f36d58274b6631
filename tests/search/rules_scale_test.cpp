// The planner under closed formulas on large pools of made-up devices: many types, many zones. Prints what it took.
#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>
#include <random>

#include "flotilla/base/text.hpp"
#include "flotilla/sailor/artifact.hpp"
#include "flotilla/search/planner.hpp"

namespace flotilla::search::rules_scale_test {
namespace {

struct Instance {
  cluster::Profile library;
  PlanRequest request;
};

std::string zone_name(int zone) { return text("z", zone); }
/// Zones of a region are near to each other.
constexpr int zones_in_region = 4;

double rate(std::mt19937_64& random, bool near) { return std::uniform_real_distribution{near ? 1.0 : 0.1, near ? 1.3 : 0.3}(random); }

void add_type(Instance& i, std::mt19937_64& random, const std::string& name) {
  const double speed = std::uniform_real_distribution{0.3, 3.0}(random);
  cluster::DeviceType type;
  type.name = name;
  type.memory = {static_cast<std::int64_t>(std::uniform_real_distribution{15e9, 90e9}(random))};
  type.per_node = 8;
  type.usd_per_hour = speed * std::uniform_real_distribution{2.0, 4.0}(random);
  i.library.device_types.push_back(type);
  const int layers = i.request.model.layers();
  for (const int m : {1, 2, 4, 8})
    for (const int degree : {1, 2, 4, 8}) {
      const auto add = [&](int first, int last, double seconds) {
        const double time = seconds / speed * std::pow(m, 0.9) / std::pow(degree, 0.8);
        i.library.layer_times.push_back({i.request.model.name, name, first, last, degree, m, Precision::fp32, {time}, {2 * time}, {0.002}});
      };
      add(0, 1, 0.001), add(1, layers - 1, 0.003), add(layers - 1, layers, 0.003);
    }
}

/// `types` types, each in every zone, `count` devices of each there.
Instance instance(int types, int zones, int count, int batch) {
  std::mt19937_64 random{static_cast<std::uint64_t>(types * 100 + zones)};
  Instance i;
  i.request.model = model::built_in("opt-350m");
  i.request.length = i.request.model.positions;
  i.request.global_batch = batch;
  for (int t = 0; t < types; ++t) add_type(i, random, text("t", t));
  const int layers = i.request.model.layers();
  for (const int degree : {1, 2, 4, 8}) {
    const auto add = [&](int first, int last, std::int64_t parameters, std::int64_t saved) {
      i.library.layer_sizes.push_back({i.request.model.name, first, last, degree, parameters / degree, 0, 2'097'152, saved / degree});
    };
    add(0, 1, 53'000'000, 2'000'000), add(1, layers - 1, 12'600'000, 90'000'000), add(layers - 1, layers, 51'500'000, 200'000'000);
  }
  for (int t = 0; t < types; ++t)
    for (int o = 0; o < types; ++o)
      for (int z = 0; z < zones; ++z)
        for (int y = z; y < zones; ++y) {
          const double single = rate(random, z / zones_in_region == y / zones_in_region);
          for (const int from : {1, 2, 4, 8})
            for (const int to : {1, 2, 4, 8})
              i.library.link_fits.push_back({zone_name(z),
                                             text("t", t),
                                             from,
                                             zone_name(y),
                                             text("t", o),
                                             to,
                                             -0.01,
                                             0.1 * std::min(from, to),
                                             single * std::min(from, to),
                                             {1e11}});
        }
  for (int z = 0; z < zones; ++z)
    for (int y = 0; y < zones; ++y)
      if (z != y) i.library.egress_prices.push_back({zone_name(z), zone_name(y), 1e-11});
  for (int t = 0; t < types; ++t)
    for (int z = 0; z < zones; ++z) i.request.pool.push_back({text("t", t), zone_name(z), count, 8});
  return i;
}

void plan(const char* name, const Instance& i) {
  const std::clock_t start = std::clock();
  const auto a = plan(i.request, sailor::SailorArtifact{i.library});
  const double ms = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(a.best) << name << ": " << a.no_plan_reason;
  plan::require_valid(a.best->plan, "plan");
  EXPECT_LT(a.bound_gap, 1);
  std::printf("%-34s %9.1f CPU ms  gap %6.2f%%  value %9.4f  %7d devices  %9lld considered %s\n", name, ms, 100 * a.bound_gap,
              a.best->value, a.best->devices, static_cast<long long>(a.considered), a.finished ? "" : "(not finished)");
  std::fflush(stdout);
}

TEST(RulesScale, Answers) {
  plan("1 type x 256", instance(1, 1, 256, 1024));
  plan("2 types x 256", instance(2, 1, 256, 1024));
  plan("3 types x 32", instance(3, 1, 32, 1024));
  plan("4 types x 64", instance(4, 1, 64, 1024));
  plan("6 types x 64", instance(6, 1, 64, 1024));
  plan("2 types x 128 in 2 zones", instance(2, 2, 128, 1024));
  plan("6 types x 16 in 4 zones", instance(6, 4, 16, 1024));
  plan("1 type x 1024 in 16 zones", instance(1, 16, 1024, 4096));
  Instance dear = instance(3, 4, 64, 1024);
  dear.request.objective.goal = Goal::cost;
  plan("3 types x 64 in 4 zones, cost", dear);
  plan("8 types x 782 in 16 zones", instance(8, 16, 782, 8192));
}

}  // namespace
}  // namespace flotilla::search::rules_scale_test
