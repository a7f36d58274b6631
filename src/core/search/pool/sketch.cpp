#include "sketch.hpp"

#include <algorithm>
#include <numeric>

namespace flotilla::search::pool {
namespace {

/// Sequences of each column of a kind, as even as they go: where microbatches do not come out, all of them end with a short one.
std::vector<int> shares(const Column& column) {
  std::vector<int> out(at(column.count), column.sequences / column.count);
  for (int i = 0; i < column.sequences % column.count; ++i) ++out[at(i)];
  return out;
}

template <class Price>
double sum(const Sketch& sketch, const Stock& stock, Price price) {
  double all = 0;
  for (const Column& column : sketch.columns)
    for (const Slot& slot : column.slots) all += column.count * slot.tensor * price(stock.types[at(stock.places[at(slot.place)].type)]);
  return all;
}

}  // namespace

int columns_of(const Sketch& sketch) {
  int all = 0;
  for (const Column& column : sketch.columns) all += column.count;
  return all;
}

int devices_of(const Sketch& sketch) {
  int all = 0;
  for (const Column& column : sketch.columns)
    for (const Slot& slot : column.slots) all += column.count * slot.tensor;
  return all;
}

double price_of(const Sketch& sketch, const Stock& stock) {
  return sum(sketch, stock, [](const Type& type) { return type.price; });
}
double usd_of(const Sketch& sketch, const Stock& stock) {
  return sum(sketch, stock, [](const Type& type) { return type.usd; });
}

plan::Plan plan_without_stages(const PlanRequest& request) {
  plan::Plan plan;
  plan.model = request.model;
  plan.length = request.length;
  plan.global_batch = request.global_batch;
  plan.precision = request.precision;
  plan.shard_optimizer = request.constraints.shard_optimizer.value_or(false);
  return plan;
}

plan::Plan plan_of(const Sketch& sketch, const Stock& stock) {
  const PlanRequest& request = stock.request;
  plan::Plan plan = plan_without_stages(request);
  plan.schedule = sketch.schedule;
  std::vector<std::vector<int>> sequences;
  plan.quantum = request.global_batch;
  for (const Column& column : sketch.columns) {
    sequences.push_back(shares(column));
    plan.quantum = std::gcd(plan.quantum, column.microbatch);
    for (const int share : sequences.back()) plan.quantum = std::gcd(plan.quantum, share);
  }
  for (int s = 0; s < sketch.stages(); ++s) {
    plan::Stage stage{sketch.cuts[at(s)], sketch.cuts[at(s + 1)], sketch.recompute[at(s)], {}};
    for (std::size_t c = 0; c < sketch.columns.size(); ++c) {
      const Column& column = sketch.columns[c];
      const Slot& slot = column.slots[at(s)];
      const Place& place = stock.places[at(slot.place)];
      for (const int share : sequences[c])
        stage.replicas.push_back({stock.types[at(place.type)].name, place.zone, slot.tensor, {}, column.microbatch / plan.quantum, share});
    }
    plan.stages.push_back(std::move(stage));
  }
  return constrained(std::move(plan), request.constraints);
}

}  // namespace flotilla::search::pool
