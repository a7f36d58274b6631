#pragma once
#include <vector>

#include "stock.hpp"

namespace flotilla::search::pool {

constexpr int largest_microbatch = 16;  ///< sequences

/// Where one replica of a stage stands.
struct Slot {
  int place = 0;
  int tensor = 1;
  bool operator==(const Slot&) const = default;
};

/// Replicas with equal numbers in all stages, along which microbatches travel; `count` equal ones.
struct Column {
  std::vector<Slot> slots;  ///< by stage
  int microbatch = 1;       ///< sequences, a power of two
  int count = 1;
  int sequences = 0;  ///< of all of them, in one iteration; set by deal()
  bool operator==(const Column&) const = default;
};

/// A plan while it is searched for.
struct Sketch {
  std::vector<int> cuts;                   ///< stages + 1 layer boundaries
  std::vector<plan::Recompute> recompute;  ///< by stage
  std::vector<Column> columns;
  plan::ScheduleKind schedule = plan::ScheduleKind::one_f_one_b;  ///< or GPipe
  int stages() const { return static_cast<int>(cuts.size()) - 1; }
  bool operator==(const Sketch&) const = default;
};

int columns_of(const Sketch&);
int devices_of(const Sketch&);
/// Devices times their prices, per second.
double price_of(const Sketch&, const Stock&);
double usd_of(const Sketch&, const Stock&);

/// What a request fixes of every plan: model, length, batch, precision.
plan::Plan plan_without_stages(const PoolRequest&);
/// Unbound. Columns of equal work stand next to each other, place by place.
plan::Plan plan_of(const Sketch&, const Stock&);

}  // namespace flotilla::search::pool
