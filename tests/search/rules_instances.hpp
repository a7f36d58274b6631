#pragma once
// Small random pools for the planner under closed formulas, and plain enumeration of all plans on them. Written independently of the
// planner: it shares the formulas only.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "flotilla/sailor/formulas.hpp"
#include "flotilla/search/planner.hpp"
#include "support/random.hpp"

namespace flotilla::search {

using sailor::SailorKind;
using sailor::SailorPlan;
using sailor::SailorTables;

struct Instance {
  cluster::Profile library;
  PlanRequest request;
};

using tests::Dice;

inline void add_layers(Instance& i, Dice& dice, const std::string& type, double speed) {
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

inline cluster::DeviceType random_type(Dice& dice, int number) {
  cluster::DeviceType type;
  type.name = "t" + std::to_string(number);
  type.memory = {static_cast<std::int64_t>(dice.real(3.2e9, 7e9))};
  type.per_node = 2;
  type.usd_per_hour = dice.real(1, 5);
  type.billing_weight = dice.real(1, 5);
  type.power_watts = dice.real(100, 500);
  return type;
}

inline void set_model(Instance& i, int blocks, int batch) {
  i.request.model = model::built_in("gpt2-tiny");
  i.request.model.blocks = blocks;
  i.request.length = i.request.model.positions;
  i.request.global_batch = batch;
  const int layers = i.request.model.layers();
  for (const int degree : {1, 2}) {
    i.library.layer_sizes.push_back({i.request.model.name, 0, 1, degree, 20'000'000 / degree, 0, 4'000'000, 30'000'000 / degree});
    i.library.layer_sizes.push_back({i.request.model.name, 1, layers - 1, degree, 40'000'000 / degree, 0, 4'000'000, 60'000'000 / degree});
    i.library.layer_sizes.push_back({i.request.model.name, layers - 1, layers, degree, 20'000'000 / degree, 0, 1'000, 30'000'000 / degree});
  }
}

/// Up to three types in one or two zones, six layers.
inline Instance random_instance(int seed, bool limited, int devices = 8) {
  Dice dice{seed};
  Instance i;
  const int blocks = dice.pick(1, 4);
  set_model(i, blocks, dice.pick(1, 12));
  const int types = dice.pick(1, 3), zones = dice.pick(1, 2);
  std::vector<std::string> names;
  int left = devices;
  for (int t = 0; t < types; ++t) {
    const cluster::DeviceType type = random_type(dice, t);
    i.library.device_types.push_back(type);
    names.push_back(type.name);
    add_layers(i, dice, type.name, dice.real(0.5, 3));
    const int count = std::min(left, dice.pick(1, 4));
    left -= count;
    const std::string zone = zones == 2 && dice.pick(0, 1) ? "z1" : "z0";
    if (count > 0) i.request.pool.push_back({type.name, zone, count, 2});
    if (zones == 2 && left > 0 && dice.pick(0, 1)) i.request.pool.push_back({type.name, zone == "z0" ? "z1" : "z0", 1, 2}), --left;
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

/// One thing decided, as somebody might who knows the pool: it may be that no plan is so.
inline void fix_something(Instance& i, Dice& dice) {
  Constraints& fixed = i.request.constraints;
  const int layers = i.request.model.layers();
  switch (dice.pick(0, 5)) {
    case 0: fixed.data = dice.pick(1, std::min(3, i.request.global_batch)); break;
    case 1: fixed.pipeline = dice.pick(1, std::min(4, layers)); break;
    case 2: fixed.tensor = dice.pick(1, 2); break;
    case 3: fixed.microbatch = dice.pick(1, std::min(2, i.request.global_batch)); break;
    case 4: fixed.cuts = {0, dice.pick(1, layers - 1), layers}; break;
    default: i.request.restrictions.uniform_degrees = true;
  }
}

/// Two types in one zone, ten or eleven devices that know no tensor parallelism, three layers: more devices than the planner tries out one
/// by one. Links are as fast as their slower end.
inline Instance larger_instance(int seed) {
  Dice dice{seed};
  Instance i;
  const int per_node = seed % 4 == 3 ? 2 : 1;
  set_model(i, seed % 4 == 1 ? 2 : 1, dice.pick(4, 24));
  std::vector<double> rates;
  for (int t = 0; t < 2; ++t) {
    const cluster::DeviceType type = random_type(dice, t);
    i.library.device_types.push_back(type);
    add_layers(i, dice, type.name, dice.real(0.5, 3));
    i.request.pool.push_back({type.name, "z0", t == 0 ? 0 : dice.pick(3, 7), per_node});
    rates.push_back(dice.real(0.5, 4));
  }
  i.request.pool[0].count = 10 - i.request.pool[1].count;
  for (std::size_t a = 0; a < 2; ++a)
    for (std::size_t b = 0; b < 2; ++b)
      for (const int from : {1, 2})
        for (const int to : {1, 2})
          i.library.link_fits.push_back({"z0",
                                         i.library.device_types[a].name,
                                         from,
                                         "z0",
                                         i.library.device_types[b].name,
                                         to,
                                         0,
                                         0,
                                         std::min(rates[a] * from, rates[b] * to),
                                         {1e10}});
  i.request.objective.goal = dice.pick(0, 2) == 0 ? Goal::cost : Goal::throughput;
  if (dice.pick(0, 2) == 0) i.request.objective.limits.devices = dice.pick(3, 9);
  if (dice.pick(0, 2) == 0) i.request.objective.limits.usd_per_iteration = dice.real(0.002, 0.02);
  return i;
}

/// One type in two or three zones, ten devices without tensor parallelism; zones are near or far.
inline Instance zoned_instance(int seed) {
  Dice dice{seed};
  Instance i;
  set_model(i, seed % 3 == 0 ? 2 : 1, dice.pick(4, 24));
  const cluster::DeviceType type = random_type(dice, 0);
  i.library.device_types.push_back(type);
  add_layers(i, dice, type.name, dice.real(0.5, 3));
  const int zones = seed % 4 == 0 ? 3 : 2;
  int left = 10;
  for (int z = 0; z < zones; ++z) {
    const int count = z + 1 == zones ? left : dice.pick(2, 5);
    i.request.pool.push_back({type.name, "z" + std::to_string(z), count, 1});
    left -= count;
  }
  const double far = seed % 2 == 0 ? dice.real(0.1, 0.4) : dice.real(0.7, 1.2);
  for (int a = 0; a < zones; ++a)
    for (int b = 0; b < zones; ++b) {
      const double rate = dice.real(1, 1.3) * (a == b ? 1 : far);
      i.library.link_fits.push_back({"z" + std::to_string(a), type.name, 1, "z" + std::to_string(b), type.name, 1, 0, 0, rate, {1e10}});
      if (a != b) i.library.egress_prices.push_back({"z" + std::to_string(a), "z" + std::to_string(b), 1e-11});
    }
  i.request.objective.goal = dice.pick(0, 2) == 0 ? Goal::cost : Goal::throughput;
  return i;
}

/// Tries every cut, degree, microbatch size, number of replicas, and every assignment of every replica.
class Enumeration {
 public:
  explicit Enumeration(const Instance& i) : r_{i.request}, t_{i.library, i.request.model} {
    for (const auto& e : r_.pool) {
      room_.push_back(e.count);
      devices_ += e.count;
      for (int degree = 1; degree <= e.per_node; degree *= 2)
        kinds_.push_back({static_cast<int>(room_.size()) - 1, {*t_.type(e.device_type), *t_.zone(e.zone), degree}});
    }
    for (const int m : {1, 2})
      for (int replicas = 1; m <= r_.global_batch && replicas <= devices_ && replicas <= r_.global_batch; ++replicas) {
        plan_ = {r_.global_batch, m, {}};
        cut(0, replicas);
      }
  }
  double best = std::numeric_limits<double>::infinity();

 private:
  struct FamilyChoice {
    int entry;
    SailorKind kind;
  };
  void cut(int first, int replicas) {
    if (first == t_.layers()) return fill(0, replicas, replicas);
    for (int last = first + 1; last <= t_.layers(); ++last) {
      plan_.stages.push_back({first, last, {}});
      if (static_cast<int>(plan_.stages.size()) * replicas <= devices_) cut(last, replicas);
      plan_.stages.pop_back();
    }
  }
  void fill(std::size_t stage, int left, int replicas) {
    if (stage == plan_.stages.size()) return judge();
    if (left == 0) return fill(stage + 1, replicas, replicas);
    for (const FamilyChoice& c : kinds_) {
      int& room = room_[static_cast<std::size_t>(c.entry)];
      if (room < c.kind.tensor_parallel) continue;
      room -= c.kind.tensor_parallel;
      plan_.stages[stage].replicas.push_back({c.kind, 1});
      fill(stage, left - 1, replicas);
      plan_.stages[stage].replicas.pop_back();
      room += c.kind.tensor_parallel;
    }
  }
  double value_of(const sailor::SailorEstimate& e) const {
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
  bool keeps_constraints() const {
    const Constraints& fixed = r_.constraints;
    const int tensor = plan_.stages.front().replicas.front().kind.tensor_parallel;
    const bool wants_one = fixed.tensor || r_.restrictions.uniform_degrees;
    std::vector<int> cuts{0};
    for (const auto& stage : plan_.stages) {
      cuts.push_back(stage.last_layer);
      for (const auto& run : stage.replicas)
        if (wants_one && run.kind.tensor_parallel != fixed.tensor.value_or(tensor)) return false;
    }
    return fixed.data.value_or(sailor::degree(plan_.stages.front())) == sailor::degree(plan_.stages.front()) &&
           fixed.pipeline.value_or(static_cast<int>(plan_.stages.size())) == static_cast<int>(plan_.stages.size()) &&
           fixed.microbatch.value_or(plan_.sequences) == plan_.sequences && (fixed.cuts.empty() || fixed.cuts == cuts);
  }
  void judge() {
    const auto e = sailor::sailor_estimate(t_, plan_);
    if (!e) return;  // a link that was not measured
    const double value = value_of(*e);
    if (value >= best || !keeps_restrictions() || !keeps_constraints()) return;
    int devices = 0;
    for (const auto& stage : plan_.stages)
      for (const auto& run : stage.replicas) devices += run.kind.tensor_parallel;
    const Limits& l = r_.objective.limits;
    if (l.iterations_per_second && e->iteration.value * *l.iterations_per_second > 1) return;
    if (l.usd_per_iteration && *e->expense.usd() > *l.usd_per_iteration) return;
    if (l.devices && devices > *l.devices) return;
    if (sailor::sailor_fits(t_, plan_)) best = value;
  }

  const PlanRequest& r_;
  SailorTables t_;
  int devices_ = 0;
  std::vector<int> room_;
  std::vector<FamilyChoice> kinds_;
  SailorPlan plan_;
};

}  // namespace flotilla::search
