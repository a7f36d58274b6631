#include "problem.hpp"

#include <algorithm>
#include <set>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"

namespace flotilla::search::rules {
namespace {

void require_measured(const PlanRequest& r) {
  FLOTILLA_REQUIRE(r.length == r.model.positions, ErrorKind::bad_input, "layers of ", r.model.name, " were measured with sequences of ",
                   r.model.positions, " tokens, not ", r.length);
  FLOTILLA_REQUIRE(r.precision == Precision::fp32, ErrorKind::bad_input, "the closed formulas know fp32 only, not ",
                   to_string(r.precision));
}

/// Of a device-hour, by what the goal counts.
double price_of(const cluster::DeviceType& t, Goal goal) {
  switch (goal) {
    case Goal::billing: return t.billing_weight;
    case Goal::energy: return t.power_watts * an_hour;
    case Goal::throughput:
    case Goal::cost: break;
  }
  return t.usd_per_hour;
}

/// Of the model, on any type, in order.
std::vector<int> measured_sequences(const PlanRequest& r, const cluster::Profile& library) {
  std::set<int> all;
  for (const auto& time : library.layer_times)
    if (time.model == r.model.name && time.sequences <= r.global_batch &&
        r.constraints.microbatch.value_or(time.sequences) == time.sequences)
      all.insert(time.sequences);
  return {all.begin(), all.end()};
}

void add_entry(FormulaProblem& p, const PoolEntry& from) {
  const auto type = p.tables.type(from.device_type);
  if (from.count == 0) return;
  const int per_node = from.per_node > 0 ? from.per_node : std::max(1, p.tables.type(*type).per_node);
  const auto known_zone = p.tables.zone(from.zone);
  FLOTILLA_REQUIRE(known_zone || from.zone.empty(), ErrorKind::bad_input, "the pool holds ", from.device_type, " in ", in_quotes(from.zone),
                   ", a zone that the library does not know; these formulas take every link from it, so name one of its zones, or none");
  const int zone = known_zone.value_or(-1);
  const auto found =
      std::ranges::find_if(p.entries, [&](const PoolSlot& e) { return e.type == *type && e.zone == zone && e.per_node == per_node; });
  if (found != p.entries.end())
    found->count += from.count;
  else
    p.entries.push_back({0, *type, zone, 0, from.count, per_node});
}

bool is_measured(const FormulaProblem& p, int type, int tensor) {
  return std::ranges::any_of(p.sequences, [&](int m) { return p.tables.cell(type, tensor, m) >= 0; }) && p.tables.held(tensor, 0, 1);
}

void add_kinds(FormulaProblem& p, int group) {
  const TypeInRegion& g = p.groups[static_cast<std::size_t>(group)];
  for (int tensor = 1; tensor <= model::largest_tensor_parallel(p.request.model) && tensor <= g.count; tensor *= 2) {
    if (p.request.constraints.tensor.value_or(tensor) != tensor) continue;
    ReplicaKind kind{group, tensor, {}, 0};
    for (const int e : g.entries) {
      const PoolSlot& entry = p.entries[static_cast<std::size_t>(e)];
      if (entry.per_node % tensor != 0 || entry.count < tensor) continue;
      kind.entries.push_back(e);
      kind.most_in_one = std::max(kind.most_in_one, entry.count / tensor);
    }
    if (!kind.entries.empty() && is_measured(p, g.type, tensor)) p.kinds.push_back(std::move(kind));
  }
}

}  // namespace

FormulaProblem::FormulaProblem(const PlanRequest& r, const cluster::Profile& library)
    : request{r}, shared_tables{std::make_shared<const sailor::SailorTables>(library, r.model)}, tables{*shared_tables} {
  require_measured(r);
  sequences = measured_sequences(r, library);
  FLOTILLA_REQUIRE(tables.sized() && !sequences.empty(), ErrorKind::bad_input, "the library has no ",
                   tables.sized() ? "layer times" : "layer sizes", " of ", in_quotes(r.model.name),
                   r.constraints.microbatch ? text(" at microbatches of ", *r.constraints.microbatch) : "",
                   "; give another model, microbatch or library");
  FLOTILLA_REQUIRE(tables.layers() <= tuning::rules_layers, ErrorKind::bad_input, "the model has ", tables.layers(),
                   " layers; planning by closed formulas knows at most ", tuning::rules_layers);
  weights = std::make_shared<const Weights>(tables);
  for (const PoolEntry& entry : r.pool) add_entry(*this, entry);
  add_groups();
}

FormulaProblem::FormulaProblem(const FormulaProblem& whole, const std::vector<int>& some)
    : request{whole.request},
      shared_tables{whole.shared_tables},
      tables{*shared_tables},
      weights{whole.weights},
      sequences{whole.sequences} {
  for (const int e : some) entries.push_back(whole.entries[rules::at(e)]);
  add_groups();
}

/// Zones that are near are of one region, and those near to them.
void FormulaProblem::add_regions() {
  const auto time = [&](const PoolSlot& x, const PoolSlot& y) {
    const auto* fit = tables.single_link({x.type, x.zone, 1}, {y.type, y.zone, 1});
    return fit ? sailor::sailor_message(*fit, tuning::rules_message).value : never;
  };
  for (int e = 0; e < static_cast<int>(entries.size()); ++e) entries[rules::at(e)].region = e;
  for (PoolSlot& x : entries)
    for (const PoolSlot& y : entries) {
      if (x.region == y.region || (x.zone != y.zone && time(x, y) > tuning::rules_far * std::max(time(x, x), time(y, y)))) continue;
      const int kept = y.region, gone = x.region;
      for (PoolSlot& e : entries)
        if (e.region == gone) e.region = kept;
    }
  std::vector<int> numbers;
  for (PoolSlot& e : entries) {
    if (std::ranges::find(numbers, e.region) == numbers.end()) numbers.push_back(e.region);
    e.region = static_cast<int>(std::ranges::find(numbers, e.region) - numbers.begin());
  }
  regions = static_cast<int>(numbers.size());
  if (regions <= tuning::rules_regions) return;
  for (PoolSlot& e : entries) e.region = 0;
  regions = 1;
}

void FormulaProblem::add_groups() {
  std::size_t choices = 0;
  for (const PoolSlot& entry : entries) {
    devices += entry.count;
    for (int tensor = 1; tensor <= entry.count; tensor *= 2) choices += is_measured(*this, entry.type, tensor) ? 1 : 0;
  }
  tiny = devices <= tuning::rules_few_devices && choices <= tuning::rules_few_choices;
  if (!tiny) add_regions();
  for (int e = 0; e < static_cast<int>(entries.size()); ++e) {
    PoolSlot& entry = entries[rules::at(e)];
    auto group = std::ranges::find_if(groups, [&](const TypeInRegion& g) { return g.type == entry.type && g.region == entry.region; });
    if (group == groups.end()) {
      const cluster::DeviceType& t = tables.type(entry.type);
      groups.push_back({entry.type, entry.region, 0, 0, 0, static_cast<double>(t.memory.count), price_of(t, request.objective.goal), {}});
      group = groups.end() - 1;
    }
    entry.group = static_cast<int>(group - groups.begin());
    group->count += entry.count;
    group->entries.push_back(e);
  }
  for (int g = 0; g < static_cast<int>(groups.size()); ++g) add_kinds(*this, g);
  for (TypeInRegion& group : groups) add_apart(group);
}

/// Only where all that stand beside them are of the type: then these have the same tensor degree.
void FormulaProblem::add_apart(TypeInRegion& group) const {
  const auto linked = [&](const PoolSlot& x, const PoolSlot& y) {
    return tables.single_link({x.type, x.zone, 1}, {y.type, y.zone, 1}) != nullptr;
  };
  std::vector<const PoolSlot*> apart;
  for (const int e : group.entries) {
    const PoolSlot& entry = entries[rules::at(e)];
    const auto is_linked = [&](const PoolSlot* other) { return linked(entry, *other) || linked(*other, entry); };
    if (!is_linked(&entry) && std::ranges::none_of(apart, is_linked)) apart.push_back(&entry);
  }
  if (apart.empty()) return;
  for (const PoolSlot* entry : apart) group.apart += entry->count;
  for (const PoolSlot& other : entries) {
    const auto stands_beside = [&](const PoolSlot* entry) { return linked(*entry, other) || linked(other, *entry); };
    if (std::ranges::none_of(apart, stands_beside)) continue;
    if (other.type != group.type) return void(group.apart = 0);
    group.beside += other.count;
  }
}

/// In a ring they are at most one more than what stands beside them, and that only where their number is odd.
int FormulaProblem::usable(int group, int replicas) const {
  const TypeInRegion& g = groups[rules::at(group)];
  if (g.apart == 0 || replicas < 2) return g.count;
  const std::int64_t even = g.beside, odd = even * (replicas + 1) / (replicas - 1);
  return g.count - g.apart + static_cast<int>(std::min<std::int64_t>(g.apart, replicas % 2 == 0 ? even : odd));
}

bool FormulaProblem::may_hold(int first, int last) const {
  const auto& cuts = request.constraints.cuts;
  const auto from = std::ranges::find(cuts, first);
  return cuts.empty() || (from != cuts.end() && from + 1 != cuts.end() && from[1] == last);
}

bool FormulaProblem::may_end(int stages, bool whole) const {
  const auto& depth = request.constraints.pipeline;
  return !depth || (whole ? stages == *depth : stages < *depth);
}

int FormulaProblem::blocks(int first, int last) const { return std::max(0, std::min(last, tables.layers() - 1) - std::max(first, 1)); }

Weights::Weights(const sailor::SailorTables& tables) : layers{tables.layers()}, numbers(rules::at(layers) * rules::at(layers)) {
  for (int first = 0; first < layers; ++first)
    for (int last = first + 1; last <= layers; ++last) bytes.push_back(tables.weight_bytes(first, last));
  std::ranges::sort(bytes);
  bytes.erase(std::unique(bytes.begin(), bytes.end()), bytes.end());
  for (int first = 0; first < layers; ++first)
    for (int last = first + 1; last <= layers; ++last)
      numbers[rules::at(first * layers + last - 1)] =
          static_cast<int>(std::ranges::lower_bound(bytes, tables.weight_bytes(first, last)) - bytes.begin());
}

sailor::SailorKind FormulaProblem::at(int kind, int entry) const {
  const ReplicaKind& k = kinds[static_cast<std::size_t>(kind)];
  return {groups[static_cast<std::size_t>(k.group)].type, entries[static_cast<std::size_t>(entry)].zone, k.tensor};
}

bool FormulaProblem::in_usd() const {
  const Goal goal = request.objective.goal;
  return (goal == Goal::cost || goal == Goal::throughput) && std::ranges::all_of(groups, [](const TypeInRegion& g) { return g.price > 0; });
}

}  // namespace flotilla::search::rules
