// What the Sailor artifact's formulas say of memory and money.
#include <algorithm>

#include "flotilla/sailor/formulas.hpp"
#include "neighbours.hpp"

namespace flotilla::sailor {
namespace {

using program::Category;

constexpr double seconds_in_an_hour = 3600;
constexpr double most_bytes = 9e18;  // of 64 bits

Bytes bytes_of(double bytes) { return {static_cast<std::int64_t>(std::min(bytes, most_bytes))}; }

/// Sums that a missing price makes absent.
struct PricedSum {
  double value = 0;
  bool known = true;
  void add(double count, double price) {
    value += count * price;
    known = known && price > 0;
  }
  std::optional<double> times(double by) const { return known ? std::optional{value * by} : std::nullopt; }
};

/// USD of the bytes that leave their zones in one iteration.
class Egress {
 public:
  explicit Egress(const SailorTables& tables) : t_{tables} {}

  void send(const std::vector<SailorRun>& from, const std::vector<SailorRun>& to, double bytes) {
    for_each_pair(from, to, [&](const SailorKind& a, const SailorKind& b, int count) { add(a, b, count * bytes); });
  }
  /// Each edge of the ring, the closing one too.
  void reduce(const SailorStage& stage, double bytes) {
    for_each_edge(stage.replicas, [&](const SailorKind& a, const SailorKind& b, int count) { add(a, b, count * bytes); });
    add(stage.replicas.back().kind, stage.replicas.front().kind, bytes);
  }
  std::optional<double> usd() const { return known_ ? std::optional{usd_} : std::nullopt; }

 private:
  void add(const SailorKind& a, const SailorKind& b, double bytes) {
    if (bytes <= 0) return;
    const auto price = t_.egress_price(a.zone, b.zone);
    known_ = known_ && price;
    usd_ += price.value_or(0) * bytes;
  }
  const SailorTables& t_;
  double usd_ = 0;
  bool known_ = true;
};

std::optional<double> egress_usd(const SailorTables& t, const SailorPlan& plan) {
  if (!t.sized()) return std::nullopt;
  Egress egress{t};
  const double rounds = static_cast<double>(plan.sequences) * microbatches(plan);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const SailorStage& stage = plan.stages[s];
    if (s + 1 < plan.stages.size()) {
      // Gradients are as large as the activations that they answer here, unlike in the formula for time.
      const double bytes = t.output_bytes(stage.last_layer - 1) * rounds;
      egress.send(stage.replicas, plan.stages[s + 1].replicas, bytes);
      egress.send(plan.stages[s + 1].replicas, stage.replicas, bytes);
    }
    const int members = degree(stage);
    egress.reduce(stage, t.weight_bytes(stage.first_layer, stage.last_layer) / members * 2 * (members - 1));
  }
  return egress.usd();
}

}  // namespace

std::optional<simulate::MemoryForecast> sailor_memory(const SailorTables& t, int tensor_parallel, int sequences, int first_layer,
                                                      int last_layer, int stage, int stages) {
  const auto held = t.held(tensor_parallel, first_layer, last_layer);
  if (!held) return std::nullopt;
  simulate::MemoryForecast memory;
  const auto put = [&](Category category, double bytes) {
    memory.categories[static_cast<std::size_t>(category)] = bytes_of(bytes);
    memory.arena += bytes_of(bytes);
  };
  put(Category::parameters, 8 * held->parameters);  // weights, and the copy that DeepSpeed makes of them
  put(Category::gradients, 4 * held->parameters);
  put(Category::optimizer, 8 * held->parameters);      // Adam's moments
  put(Category::communication, 4 * held->parameters);  // buckets
  put(Category::activations, bytes_an_activation * held->saved * sequences * (stages - stage));
  memory.runtime_constant = tensor_parallel == 1 ? beside_alone : beside_in_group;
  return memory;
}

bool sailor_fits(const SailorTables& t, const SailorPlan& plan) {
  const int stages = static_cast<int>(plan.stages.size());
  for (int s = 0; s < stages; ++s) {
    const SailorStage& stage = plan.stages[static_cast<std::size_t>(s)];
    for (const SailorRun& run : stage.replicas) {
      const auto memory = sailor_memory(t, run.kind.tensor_parallel, plan.sequences, stage.first_layer, stage.last_layer, s, stages);
      if (!memory || memory->peak() > t.type(run.kind.type).memory) return false;
    }
  }
  return true;
}

simulate::Expense sailor_expense(const SailorTables& t, const SailorPlan& plan, Seconds time) {
  PricedSum usd, weight, watts;
  for (const SailorStage& stage : plan.stages)
    for (const SailorRun& run : stage.replicas) {
      const cluster::DeviceType& type = t.type(run.kind.type);
      const double devices = static_cast<double>(run.count) * run.kind.tensor_parallel;
      usd.add(devices, type.usd_per_hour);
      weight.add(devices, type.billing_weight);
      watts.add(devices, type.power_watts);
    }
  const double hours = time.value / seconds_in_an_hour;
  return {usd.times(hours), egress_usd(t, plan), weight.times(hours), watts.times(time.value)};
}

}  // namespace flotilla::sailor
