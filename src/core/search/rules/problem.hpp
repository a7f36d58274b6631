#pragma once
#include <limits>
#include <memory>
#include <vector>

#include "../tuning.hpp"
#include "flotilla/sailor/formulas.hpp"
#include "flotilla/search/planner.hpp"

namespace flotilla::search::rules {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

constexpr double an_hour = 3600;        ///< seconds
constexpr double rounding = 1 - 1e-12;  ///< a bound that sums in another order than what it bounds stays below it

/// Pool entries of one type and zone.
struct PoolSlot {
  int group = 0;
  int type = 0, zone = -1;  ///< the tables' numbers
  int region = 0;
  int count = 0, per_node = 1;
};
/// All devices of one type in one region: zones among which messages take at most twice what they take inside. The search stage types at
/// zones only when it turns a shape into a plan.
struct TypeInRegion {
  int type = 0, region = 0;
  int count = 0;
  /// Of them, those in zones among which no link leads; and the devices of the type that links connect with these.
  int apart = 0, beside = 0;
  double memory = 0;  ///< bytes
  double price = 0;   ///< of a device-hour, in what the goal counts (USD where that is time): value = hours x price (+ egress in USD)
  std::vector<int> entries;
};
/// A way to run a replica, but for its zone.
struct ReplicaKind {
  int group = 0, tensor = 1;
  std::vector<int> entries;  ///< whose nodes take it
  int most_in_one = 0;       ///< replicas that the largest of them takes
};

/// Bytes of the weights of contiguous layers; ranges of equal bytes have one number.
struct Weights {
  explicit Weights(const sailor::SailorTables&);
  int number(int first, int last) const { return numbers[at(first * layers + last - 1)]; }
  int layers = 0;
  std::vector<int> numbers;
  std::vector<double> bytes;  ///< by number, ascending
};

/// The request in the tables' numbers.
struct FormulaProblem {
  FormulaProblem(const PlanRequest&, const cluster::Profile&);
  /// The same with some of the entries only.
  FormulaProblem(const FormulaProblem& whole, const std::vector<int>& entries);

  sailor::SailorKind at(int kind, int entry) const;
  /// Devices of a group, at most, that rings of so many replicas can hold: of those apart from each other each stands beside another one.
  int usable(int group, int replicas) const;
  /// Whether constraints allow a stage of the layers [first, last).
  bool may_hold(int first, int last) const;
  /// Whether they allow so many stages: of the `whole` model, or of a part of it.
  bool may_end(int stages, bool whole) const;
  /// Blocks among the layers [first, last).
  int blocks(int first, int last) const;
  /// The goal is devices' time x price, not time alone.
  bool by_price() const { return request.objective.goal != Goal::throughput; }
  /// Prices are USD and all known; then egress counts, and limits in USD bound.
  bool in_usd() const;

  const PlanRequest& request;
  std::shared_ptr<const sailor::SailorTables> shared_tables;
  const sailor::SailorTables& tables;
  std::shared_ptr<const Weights> weights;
  std::vector<PoolSlot> entries;
  std::vector<TypeInRegion> groups;
  std::vector<ReplicaKind> kinds;
  std::vector<int> sequences;  ///< microbatch sizes that were measured, at most the global batch
  int devices = 0;             ///< in the pool
  int regions = 1;
  bool tiny = false;  ///< so few devices that every assignment of replicas to them can be tried

 private:
  void add_groups();
  void add_regions();
  void add_apart(TypeInRegion&) const;
};

}  // namespace flotilla::search::rules
