// The planner under closed formulas against plain enumeration on small pools of made-up devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "flotilla/base/error.hpp"
#include "flotilla/search/pool_planner.hpp"
#include "flotilla/simulate/sailor_rules.hpp"

namespace flotilla::search {
namespace {

using simulate::SailorKind;
using simulate::SailorPlan;
using simulate::SailorTables;

struct Instance {
  cluster::Profile library;
  PoolRequest request;
};

class Dice {
 public:
  explicit Dice(int seed) : random_{static_cast<std::uint64_t>(seed)} {}
  int pick(int low, int high) { return std::uniform_int_distribution{low, high}(random_); }
  double real(double low, double high) { return std::uniform_real_distribution{low, high}(random_); }

 private:
  std::mt19937_64 random_;
};

void add_layers(Instance& i, Dice& dice, const std::string& type, double speed) {
  const int layers = i.request.model.layers();
  for (const int m : {1, 2})
    for (const int degree : {1, 2}) {
      const auto add = [&](int first, int last, double forward) {
        const double time = forward / speed * m / (degree == 1 ? 1 : dice.real(1.3, 1.9));
        i.library.layer_times.push_back(
            {i.request.model.name, type, first, last, degree, m, Precision::fp32, {time}, {2 * time}, {dice.real(0, 0.02)}});
      };
      add(0, 1, 0.05), add(1, layers - 1, 0.2), add(layers - 1, layers, 0.1);
    }
}

/// Up to three types in one or two zones, eight devices, six layers.
Instance random_instance(int seed, bool limited) {
  Dice dice{seed};
  Instance i;
  i.request.model = model::built_in("gpt2-tiny");
  i.request.model.blocks = dice.pick(1, 4);
  i.request.length = i.request.model.positions;
  i.request.global_batch = dice.pick(1, 12);
  const int types = dice.pick(1, 3), zones = dice.pick(1, 2);
  std::vector<std::string> names;
  int left = 8;
  for (int t = 0; t < types; ++t) {
    cluster::DeviceType type;
    type.name = "t" + std::to_string(t);
    type.memory = {static_cast<std::int64_t>(dice.real(3.2e9, 7e9))};
    type.per_node = 2;
    type.usd_per_hour = dice.real(1, 5);
    type.billing_weight = dice.real(1, 5);
    type.power_watts = dice.real(100, 500);
    i.library.device_types.push_back(type);
    names.push_back(type.name);
    add_layers(i, dice, type.name, dice.real(0.5, 3));
    const int count = std::min(left, dice.pick(1, 4));
    left -= count;
    const std::string zone = zones == 2 && dice.pick(0, 1) ? "z1" : "z0";
    if (count > 0) i.request.pool.push_back({type.name, zone, count, 2});
    if (zones == 2 && left > 0 && dice.pick(0, 1)) i.request.pool.push_back({type.name, zone == "z0" ? "z1" : "z0", 1, 2}), --left;
  }
  const int layers = i.request.model.layers();
  for (const int degree : {1, 2}) {
    i.library.layer_sizes.push_back({i.request.model.name, 0, 1, degree, 20'000'000 / degree, 0, 4'000'000, 30'000'000 / degree});
    i.library.layer_sizes.push_back({i.request.model.name, 1, layers - 1, degree, 40'000'000 / degree, 0, 4'000'000, 60'000'000 / degree});
    i.library.layer_sizes.push_back({i.request.model.name, layers - 1, layers, degree, 20'000'000 / degree, 0, 1'000, 30'000'000 / degree});
  }
  for (const auto& a : names)
    for (const auto& b : names)
      for (const int from : {1, 2})
        for (const int to : {1, 2}) {
          const double rate = dice.real(0.5, 4);
          for (const char* zone : {"z0", "z1"}) i.library.link_fits.push_back({zone, a, from, zone, b, to, 0, 0, rate, {1e10}});
          i.library.link_fits.push_back({"z0", a, from, "z1", b, to, 0, 0, rate / 3, {1e10}});
        }
  i.library.egress_prices = {{"z0", "z1", 1e-11}, {"z1", "z0", 1e-11}};
  i.request.objective.goal = seed % 5 == 4     ? (dice.pick(0, 1) ? Goal::billing : Goal::energy)
                             : dice.pick(0, 1) ? Goal::cost
                                               : Goal::throughput;
  if (limited && dice.pick(0, 1)) i.request.objective.limits.iterations_per_second = dice.real(0.1, 1.5);
  if (limited && dice.pick(0, 1)) i.request.objective.limits.usd_per_iteration = dice.real(0.001, 0.02);
  if (limited && dice.pick(0, 2) == 0) i.request.objective.limits.devices = dice.pick(1, 6);
  if (seed % 3 == 0) {
    i.request.restrictions.even_layers = dice.pick(0, 2) == 0;
    i.request.restrictions.one_device_type = dice.pick(0, 2) == 0;
    i.request.restrictions.one_tensor_degree_per_stage = dice.pick(0, 2) == 0;
  }
  return i;
}

/// Tries every cut, degree, microbatch size, number of replicas, and every assignment of every replica.
class Enumeration {
 public:
  explicit Enumeration(const Instance& i) : r_{i.request}, t_{i.library, i.request.model} {
    for (const auto& e : r_.pool) {
      room_.push_back(e.count);
      for (const int degree : {1, 2})
        kinds_.push_back({static_cast<int>(room_.size()) - 1, {*t_.type(e.device_type), *t_.zone(e.zone), degree}});
    }
    for (const int m : {1, 2})
      for (int replicas = 1; m <= r_.global_batch && replicas <= 8 && replicas <= r_.global_batch; ++replicas) {
        plan_ = {r_.global_batch, m, {}};
        cut(0, replicas);
      }
  }
  double best = std::numeric_limits<double>::infinity();

 private:
  struct Choice {
    int entry;
    SailorKind kind;
  };
  void cut(int first, int replicas) {
    if (first == t_.layers()) return fill(0, replicas, replicas);
    for (int last = first + 1; last <= t_.layers(); ++last) {
      plan_.stages.push_back({first, last, {}});
      if (static_cast<int>(plan_.stages.size()) * replicas <= 8) cut(last, replicas);
      plan_.stages.pop_back();
    }
  }
  void fill(std::size_t stage, int left, int replicas) {
    if (stage == plan_.stages.size()) return judge();
    if (left == 0) return fill(stage + 1, replicas, replicas);
    for (const Choice& c : kinds_) {
      int& room = room_[static_cast<std::size_t>(c.entry)];
      if (room < c.kind.tensor_parallel) continue;
      room -= c.kind.tensor_parallel;
      plan_.stages[stage].replicas.push_back({c.kind, 1});
      fill(stage, left - 1, replicas);
      plan_.stages[stage].replicas.pop_back();
      room += c.kind.tensor_parallel;
    }
  }
  double value_of(const simulate::SailorEstimate& e) const {
    switch (r_.objective.goal) {
      case Goal::cost: return *e.expense.usd();
      case Goal::billing: return *e.expense.billing_units;
      case Goal::energy: return *e.expense.energy_joules;
      case Goal::throughput: break;
    }
    return e.iteration.value;
  }
  bool keeps_restrictions() const {
    const Restrictions& r = r_.restrictions;
    int least = 1000, most = 0;
    for (const auto& stage : plan_.stages) {
      const int blocks = std::min(stage.last_layer, t_.layers() - 1) - std::max(stage.first_layer, 1);
      least = std::min(least, blocks), most = std::max(most, blocks);
      for (const auto& run : stage.replicas) {
        if (r.one_device_type && run.kind.type != plan_.stages.front().replicas.front().kind.type) return false;
        if (r.one_tensor_degree_per_stage && run.kind.tensor_parallel != stage.replicas.front().kind.tensor_parallel) return false;
      }
    }
    return !r.even_layers || most - least < 2;
  }
  void judge() {
    const auto e = simulate::sailor_estimate(t_, plan_);
    const double value = value_of(*e);
    if (value >= best || !keeps_restrictions()) return;
    int devices = 0;
    for (const auto& stage : plan_.stages)
      for (const auto& run : stage.replicas) devices += run.kind.tensor_parallel;
    const Limits& l = r_.objective.limits;
    if (l.iterations_per_second && e->iteration.value * *l.iterations_per_second > 1) return;
    if (l.usd_per_iteration && *e->expense.usd() > *l.usd_per_iteration) return;
    if (l.devices && devices > *l.devices) return;
    if (simulate::sailor_fits(t_, plan_)) best = value;
  }

  const PoolRequest& r_;
  SailorTables t_;
  std::vector<int> room_;
  std::vector<Choice> kinds_;
  SailorPlan plan_;
};

double value_of(const PoolAnswer& a) { return a.best ? a.best->value : std::numeric_limits<double>::infinity(); }

class RulesPlanner : public testing::TestWithParam<int> {};

TEST_P(RulesPlanner, EqualsEnumeration) {
  for (int k = 0; k < 10; ++k) {
    const int seed = GetParam() * 10 + k;
    const Instance i = random_instance(seed, seed % 2 == 1);
    const double best = Enumeration{i}.best;
    const auto a = plan_by_rules(i.request, i.library);
    ASSERT_EQ(a.best.has_value(), std::isfinite(best)) << seed << " " << a.no_plan_reason << " " << best;
    EXPECT_TRUE(a.finished) << seed;
    if (!a.best) {
      EXPECT_FALSE(a.no_plan_reason.empty());
      continue;
    }
    plan::require_valid(a.best->plan, "plan");
    EXPECT_NEAR(value_of(a), best, 1e-3 * best) << seed << " " << plan::summary(a.best->plan) << "";
    EXPECT_GE(best, value_of(a) * (1 - a.bound_gap) * (1 - 1e-9)) << seed;
  }
}

TEST_P(RulesPlanner, MoreDevicesAreNeverWorse) {
  for (int k = 0; k < 10; ++k) {
    Instance i = random_instance(5000 + GetParam() * 10 + k, k % 2 == 1);
    if (i.request.pool.empty()) continue;
    const auto before = plan_by_rules(i.request, i.library), again = plan_by_rules(i.request, i.library);
    EXPECT_EQ(before.best.has_value(), again.best.has_value());
    if (before.best) {
      EXPECT_EQ(before.best->plan, again.best->plan);
    }
    Dice dice{k};
    i.request.pool[static_cast<std::size_t>(dice.pick(0, static_cast<int>(i.request.pool.size()) - 1))].count += 1;
    const auto larger = plan_by_rules(i.request, i.library);
    EXPECT_TRUE(larger.finished);
    EXPECT_LE(value_of(larger), value_of(before) * (1 + 1e-9));
  }
}

#ifndef FLOTILLA_TENS_OF_INSTANCES  // rules_planner_long_test looks at more of them
#define FLOTILLA_TENS_OF_INSTANCES 15
#endif
INSTANTIATE_TEST_SUITE_P(Random, RulesPlanner, testing::Range(0, FLOTILLA_TENS_OF_INSTANCES));

TEST(RulesPlannerRequests, ContradictionsAreNamed) {
  const Instance i = random_instance(1, false);
  const auto refused = [&](auto change) {
    Instance changed = i;
    change(changed.request);
    EXPECT_THROW(plan_by_rules(changed.request, changed.library), Error);
  };
  refused([](PoolRequest& r) { r.pool.clear(); });
  refused([](PoolRequest& r) { r.pool[0].count = 0, r.pool.resize(1); });
  refused([](PoolRequest& r) { r.pool[0].device_type = "unheard-of"; });
  refused([](PoolRequest& r) { r.pool[0].count = 2'000'000'000; });
  refused([](PoolRequest& r) { r.model.name = "unheard-of"; });
  refused([](PoolRequest& r) { r.global_batch = 0; });
  refused([](PoolRequest& r) { r.length += 1; });
  refused([](PoolRequest& r) { r.objective.limits.usd_per_iteration = -1; });
}

TEST(RulesPlannerRequests, SaysWhatIsMissing) {
  Instance i = random_instance(1, false);
  for (auto& type : i.library.device_types) type.memory = {2'500'000'000};
  const auto a = plan_by_rules(i.request, i.library);
  ASSERT_FALSE(a.best);
  EXPECT_NE(a.no_plan_reason.find("the model fits nowhere; nearest:"), std::string::npos) << a.no_plan_reason;
  Instance slow = random_instance(2, false);
  slow.request.objective.limits.iterations_per_second = 1e6;
  const auto b = plan_by_rules(slow.request, slow.library);
  ASSERT_FALSE(b.best);
  EXPECT_NE(b.no_plan_reason.find("the fastest makes"), std::string::npos) << b.no_plan_reason;
}

TEST(RulesPlannerRequests, StopsWhenTold) {
  Instance i = random_instance(3, false);
  i.request.should_stop = [] { return true; };
  const auto a = plan_by_rules(i.request, i.library);
  EXPECT_FALSE(a.finished);
  EXPECT_FALSE(a.best);
  EXPECT_EQ(a.no_plan_reason, "stopped before any plan was found");
}

}  // namespace
}  // namespace flotilla::search
