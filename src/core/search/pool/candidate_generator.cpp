#include "candidate_generator.hpp"

#include <algorithm>

#include "flotilla/schedule/schedule.hpp"

namespace flotilla::search::pool {

std::vector<plan::ScheduleKind> other_schedules(const program::Runtime& runtime, int devices) {
  std::vector<plan::ScheduleKind> all;
  constexpr int second = 1;  // the first stage has no gradient to send on
  for (const plan::ScheduleKind kind : schedule::schedule_kinds()) {
    const schedule::Schedule& schedule = schedule::schedule_of(kind);
    if (runtime.layers || kind == schedule::usual_schedule() || schedule.interleaves()) continue;
    if (devices <= tuning::huge_pool || !schedule.splits(second)) all.push_back(kind);
  }
  return all;
}

CandidateGenerator::CandidateGenerator(Estimator& estimate, Network& network, std::vector<plan::ScheduleKind> other_schedules,
                                       Shortlist& list, const std::function<bool()>& should_stop)
    : estimate_{estimate},
      network_{network},
      device_pool_{estimate.device_pool()},
      other_schedules_{std::move(other_schedules)},
      list_{list},
      should_stop_{should_stop} {
  least_fill_ = schedule::schedule_of(schedule::usual_schedule()).fill(1, device_pool_.request.global_batch, 2);
  for (const plan::ScheduleKind other : other_schedules_)
    least_fill_ = std::min(least_fill_, schedule::schedule_of(other).fill(1, device_pool_.request.global_batch, 2));
  const PlanRequest& request = device_pool_.request;
  const Constraints& fixed = request.constraints;
  const int most = device_pool_.largest_microbatch;
  const int largest = device_pool_.devices <= tuning::huge_pool ? most : std::min(most, tuning::largest_microbatch_of_huge);
  for (int m = 1; m <= largest; m *= 2) microbatches_.push_back(m);
  if (fixed.microbatch) microbatches_ = {*fixed.microbatch};
  for (const PoolType& type : device_pool_.types) {
    auto& all = degrees_.emplace_back();
    const auto fits = [&](int degree) {
      return degree <= std::min(type.widest, type.count) &&
             (std::has_single_bit(static_cast<unsigned>(degree)) || type.per_node % degree == 0);
    };
    for (const int degree : device_pool_.degrees)
      if (fixed.tensor ? degree == *fixed.tensor && degree <= std::min(type.widest, type.count) : fits(degree)) all.push_back(degree);
  }
  const int deepest = std::min(request.model.layers(), device_pool_.devices);
  for (int p = 1; p <= deepest; p += p < tuning::deepest_by_ones ? 1 : p < 2 * tuning::deepest_by_ones ? 4 : 8) depths_.push_back(p);
  const int stages = device_pool_.cuts.empty() ? fixed.pipeline.value_or(0) : static_cast<int>(device_pool_.cuts.size()) - 1;
  if (stages > 0) depths_.assign(stages <= deepest ? 1 : 0, stages);
}

bool CandidateGenerator::stop() {
  if (!stopped_ && should_stop_ && should_stop_()) stopped_ = true;
  return stopped_ || estimate_.count() >= budget_;
}

void CandidateGenerator::run(const std::function<void()>& more_found) {
  const std::int64_t most_estimates = tuning::most_estimates(device_pool_.devices);
  order_zones();
  const auto all = sub_pools();
  const std::int64_t each = most_estimates / (device_pool_.places.size() <= tuning::few_places ? 1 : static_cast<std::int64_t>(all.size()));
  const auto try_all = [&](plan::Recompute recompute) {
    for (const SubPool& sub_pool : all) {
      allow(each / 2);
      side_by_side(recompute, sub_pool);
      more_found();
      if (device_pool_.request.restrictions.one_device_type) continue;
      allow(each / 4);
      chains_of_all(recompute, sub_pool);
      allow(each / 4);
      chains(recompute, sub_pool);
    }
  };
  few_devices(device_pool_.devices <= tuning::few_devices ? tuning::most_of_all_columns : tuning::some_of_all_columns);
  try_all(device_pool_.request.constraints.recompute.value_or(plan::Recompute::none));
  if (!device_pool_.request.constraints.recompute && needs_recompute()) try_all(plan::Recompute::full);
  if (list_.ranked_candidates().empty() || !fits_with_whole_tokens_) few_devices(tuning::most_of_all_columns);
  fewer_zones();
  if (list_.ranked_candidates().empty() && list_.doubtful().empty() && list_.nearest_misses().empty()) least_memory();
}

/// Where no cut fits: as many stages as there are groups of devices, the smallest microbatch, everything recomputed.
void CandidateGenerator::least_memory() {
  SubPool sub_pool;
  for (const Place& place : device_pool_.places) sub_pool.push_back(place.count);
  for (int type = 0; type < static_cast<int>(device_pool_.types.size()); ++type)
    for (const int degree : degrees(type)) {
      int groups = 0;
      for (const int p : device_pool_.types[at(type)].places) groups += device_pool_.groups(p, degree);
      const int stages = std::min(groups, device_pool_.request.model.blocks);
      if (stages < 1) continue;
      CandidatePlan candidate{
          even_cuts(device_pool_.request.model.blocks, stages), std::vector<plan::Recompute>(at(stages), plan::Recompute::full), {}};
      SubPool left = sub_pool;
      add_columns(candidate, Pattern(at(stages), Kind{type, degree}), 1, left);
      if (candidate.pipelines.empty()) continue;
      candidate.pipelines.resize(1);
      candidate.pipelines.front().count = 1;
      offer(std::move(candidate));
    }
}

/// The largest first; of equally large ones that which is nearest to the others.
void CandidateGenerator::order_zones() {
  struct Zone {
    int number = 0, devices = 0;
    double links = 0;
  };
  std::vector<Zone> all;
  for (int z = 0; z < static_cast<int>(device_pool_.zones.size()); ++z) {
    Zone zone{z};
    for (int p = 0; p < static_cast<int>(device_pool_.places.size()); ++p) {
      if (device_pool_.places[at(p)].zone_number != z) continue;
      zone.devices += device_pool_.places[at(p)].count;
      for (int q = 0; q < static_cast<int>(device_pool_.places.size()); ++q) zone.links += network_.message({p, q}, 1);
    }
    all.push_back(std::move(zone));
  }
  std::ranges::stable_sort(all,
                           [](const Zone& a, const Zone& b) { return a.devices != b.devices ? a.devices > b.devices : a.links < b.links; });
  for (const Zone& zone : all) zones_.push_back(zone.number);
}

/// The whole pool; where it has few places its largest zones alone, every zone alone and a node of each place, so that gradient sums leave
/// no zone or node, or few; and where devices cost something a half of each, a quarter and so on.
std::vector<CandidateGenerator::SubPool> CandidateGenerator::sub_pools() const {
  std::vector<SubPool> out;
  const auto all = static_cast<std::ptrdiff_t>(zones_.size());
  const Limits& limits = device_pool_.request.objective.limits;
  const bool costs = !device_pool_.by_throughput() || limits.usd_per_iteration || limits.usd_per_hour || limits.devices;
  const auto add = [&](std::ptrdiff_t first, std::ptrdiff_t last, const auto& some) {
    SubPool sub_pool;
    for (const Place& place : device_pool_.places) {
      const auto zone = std::ranges::find(zones_, place.zone_number) - zones_.begin();
      sub_pool.push_back(first <= zone && zone < last ? some(place) : 0);
    }
    const bool empty = std::ranges::all_of(sub_pool, [](int count) { return count == 0; });
    if (!empty && std::ranges::find(out, sub_pool) == out.end()) out.push_back(std::move(sub_pool));
  };
  const auto add_parts = [&](std::ptrdiff_t first, std::ptrdiff_t last) {
    for (int part = 1; part == 1 || (costs && part <= device_pool_.devices); part *= 2)
      add(first, last, [&](const Place& place) { return place.count / part; });
  };
  add_parts(0, all);
  for (int type = 0; type < static_cast<int>(device_pool_.types.size()); ++type)
    for (const bool whole_nodes : {true, false})
      if (SubPool sub_pool = within_limits(type, whole_nodes); !sub_pool.empty() && std::ranges::find(out, sub_pool) == out.end())
        out.push_back(std::move(sub_pool));
  if (device_pool_.places.size() > tuning::some_places) return out;
  const bool few = device_pool_.places.size() <= tuning::few_places;
  for (auto kept = all - 1; few && kept > 1; --kept) add_parts(0, kept);
  for (std::ptrdiff_t zone = 0; zone < all; ++zone) {
    add_parts(zone, zone + 1);
    if (few) add(zone, zone + 1, [&](const Place& place) { return std::min(place.count, device_pool_.types[at(place.type)].per_node); });
  }
  return out;
}

/// What a limit of devices or of their hourly cost leaves of the pool: first of this type, then of the others. Empty where it leaves all.
CandidateGenerator::SubPool CandidateGenerator::within_limits(int first, bool whole_nodes) const {
  const Limits& limits = device_pool_.request.objective.limits;
  if (!limits.devices && !limits.usd_per_hour) return {};
  double devices = limits.devices.value_or(device_pool_.devices), usd = limits.usd_per_hour.value_or(1e300);
  SubPool sub_pool(device_pool_.places.size(), 0);
  bool all = true;
  std::vector<int> order{first};
  for (int type = 0; type < static_cast<int>(device_pool_.types.size()); ++type)
    if (type != first) order.push_back(type);
  for (const int t : order) {
    const PoolType& type = device_pool_.types[at(t)];
    for (const int p : type.places) {
      const double hourly = device_pool_.places[at(p)].usd * 3600, affordable = hourly > 0 ? usd / hourly * (1 + 1e-9) : devices;
      int count = static_cast<int>(std::min<double>({static_cast<double>(device_pool_.places[at(p)].count), devices, affordable}));
      all = all && count == device_pool_.places[at(p)].count;
      if (whole_nodes && count < device_pool_.places[at(p)].count) count -= count % type.per_node;
      sub_pool[at(p)] = count, devices -= count, usd -= count * hourly;
    }
  }
  const bool none = std::ranges::all_of(sub_pool, [](int count) { return count == 0; });
  return all || none ? SubPool{} : sub_pool;
}

/// What was found, without its columns in the smaller zones: gradient sums then leave no zone, or few.
void CandidateGenerator::fewer_zones() {
  const auto zones = static_cast<int>(zones_.size());
  const auto found = list_.ranked_candidates();
  for (const RankedCandidate& ranked : found)
    for (int kept = zones - 1; kept >= 1; kept = kept > 4 ? (kept + 1) / 2 : kept - 1) {
      const auto dropped = [&](const Slot& slot) {
        return std::ranges::find(zones_, device_pool_.places[at(slot.place)].zone_number) - zones_.begin() >= kept;
      };
      CandidatePlan candidate = ranked.candidate;
      std::erase_if(candidate.pipelines, [&](const PipelineReplica& pipeline) { return std::ranges::any_of(pipeline.slots, dropped); });
      if (candidate.pipelines.size() < ranked.candidate.pipelines.size()) offer(std::move(candidate));
    }
}

std::vector<int> CandidateGenerator::present(const SubPool& sub_pool) const {
  std::vector<int> types;
  for (int t = 0; t < static_cast<int>(device_pool_.types.size()); ++t)
    if (std::ranges::any_of(device_pool_.types[at(t)].places, [&](int p) { return sub_pool[at(p)] > 0; })) types.push_back(t);
  const auto pass = [&](int type) {
    const LeastPassTime& s = estimate_.layer_cost_table().least_pass(type, 1, 1, plan::Recompute::none);
    return s.usable ? s.block : never;
  };
  std::ranges::stable_sort(types, {}, pass);
  return types;
}

/// Types that work side by side: all subsets of a few; of many the fastest ones together, each alone, and all but one. Large ones first:
/// a good plan early excludes much.
std::vector<std::vector<int>> CandidateGenerator::teams(const std::vector<int>& types) const {
  std::vector<std::vector<int>> out;
  const auto add = [&](std::vector<int> team) {
    if (!team.empty() && std::ranges::find(out, team) == out.end()) out.push_back(std::move(team));
  };
  const auto n = types.size();
  const bool alone = device_pool_.request.restrictions.one_device_type, few = n <= tuning::most_types_of_all_teams;
  for (std::size_t i = n; i > 1 && !alone; --i) add({types.begin(), types.begin() + static_cast<std::ptrdiff_t>(i)});
  for (const int type : types) add({type});
  for (std::size_t i = 0; i < n && !alone && !few; ++i) {
    auto team = types;
    team.erase(team.begin() + static_cast<std::ptrdiff_t>(i));
    add(std::move(team));
  }
  for (std::size_t mask = 1; !alone && few && mask < std::size_t{1} << n; ++mask) {
    std::vector<int> team;
    for (std::size_t i = 0; i < n; ++i)
      if (mask >> i & 1) team.push_back(types[i]);
    add(std::move(team));
  }
  return out;
}

/// Of so many devices of the place those that whole groups of that degree take.
int CandidateGenerator::usable(int place, int devices, int tensor) const {
  return devices < tensor ? 0 : device_pool_.groups(place, tensor, devices) * tensor;
}

/// Whether some type cannot hold the whole model on one device without it.
bool CandidateGenerator::needs_recompute() {
  for (int type = 0; type < static_cast<int>(device_pool_.types.size()); ++type) {
    const LayerCostSample& s = estimate_.layer_cost_table().of(type, 1, 1, plan::Recompute::none);
    const double limit = static_cast<double>(device_pool_.types[at(type)].memory.count);
    if (s.usable && limit > 0 && estimate_.memory(s, 0, device_pool_.request.model.layers(), 1, 1) > limit) return true;
  }
  return list_.ranked_candidates().empty() || !fits_with_whole_tokens_;
}

void CandidateGenerator::add_columns(CandidatePlan& candidate, const Pattern& pattern, int microbatch, SubPool& sub_pool) const {
  struct Need {
    int devices = 0, widest = 1, place = -1;
  };
  std::vector<Need> needs(device_pool_.types.size());
  for (const Kind& kind : pattern) {
    Need& need = needs[at(kind.type)];
    need.devices += kind.tensor, need.widest = std::max(need.widest, kind.tensor);
  }
  const auto& fixed = device_pool_.request.constraints.data;
  for (const int zone : zones_) {
    int count = fixed ? *fixed - pipelines_of(candidate) : 1 << 30;
    for (std::size_t t = 0; t < needs.size(); ++t) {
      if (needs[t].devices == 0) continue;
      needs[t].place = -1;
      for (const int p : device_pool_.types[t].places)
        if (device_pool_.places[at(p)].zone_number == zone) needs[t].place = p;
      const int there = needs[t].place < 0 ? 0 : usable(needs[t].place, sub_pool[at(needs[t].place)], needs[t].widest);
      count = std::min(count, there / needs[t].devices);
    }
    if (count <= 0) continue;
    PipelineReplica pipeline{{}, microbatch, count, 0};
    pipeline.slots.reserve(pattern.size());
    for (const Kind& kind : pattern) pipeline.slots.push_back({needs[at(kind.type)].place, kind.tensor});
    for (const Need& need : needs)
      if (need.devices > 0) sub_pool[at(need.place)] -= count * need.devices;
    candidate.pipelines.push_back(std::move(pipeline));
  }
  while (device_pool_.zones.size() > 1 && (!fixed || pipelines_of(candidate) < *fixed) && most_columns(pattern, sub_pool) > 0 &&
         add_across(candidate, pattern, microbatch, sub_pool)) {
  }
}

/// Columns whose stages stand in several zones, as many equal ones as there are.
bool CandidateGenerator::add_across(CandidatePlan& candidate, const Pattern& pattern, int microbatch, SubPool& sub_pool) const {
  PipelineReplica pipeline{{}, microbatch, 1 << 30, 0};
  pipeline.slots.reserve(pattern.size());
  std::vector<int> taken(sub_pool.size(), 0);
  for (const Kind& kind : pattern) {
    const auto& places = device_pool_.types[at(kind.type)].places;
    const auto left = [&](int p) { return usable(p, sub_pool[at(p)] - taken[at(p)], kind.tensor); };
    const int before = pipeline.slots.empty() ? -1 : pipeline.slots.back().place;
    const bool stays = before >= 0 && std::ranges::find(places, before) != places.end() && left(before) >= kind.tensor;
    int place = before, most = stays ? kind.tensor : 0;
    for (std::size_t i = 0; !stays && i < places.size(); ++i)
      if (sub_pool[at(places[i])] >= kind.tensor)  // few places have devices left
        if (const int here = left(places[i]); here > most) place = places[i], most = here;
    if (most < kind.tensor) return false;
    taken[at(place)] += kind.tensor;
    pipeline.slots.push_back({place, kind.tensor});
  }
  for (std::size_t p = 0; p < sub_pool.size(); ++p)
    if (taken[p] > 0) pipeline.count = std::min(pipeline.count, sub_pool[p] / taken[p]);
  for (std::size_t p = 0; p < sub_pool.size(); ++p) sub_pool[p] -= taken[p] * pipeline.count;
  candidate.pipelines.push_back(std::move(pipeline));
  return true;
}

int CandidateGenerator::most_columns(const Pattern& pattern, const SubPool& sub_pool) const {
  std::vector<int> needs(device_pool_.types.size(), 0);
  for (const Kind& kind : pattern) needs[at(kind.type)] += kind.tensor;
  int most = 1 << 30;
  for (std::size_t t = 0; t < needs.size(); ++t) {
    if (needs[t] == 0) continue;
    int there = 0;
    for (const int p : device_pool_.types[t].places) there += sub_pool[at(p)];
    most = std::min(most, there / needs[t]);
  }
  return most;
}

PipelineReplica CandidateGenerator::sample(const Pattern& pattern, int microbatch, const SubPool& sub_pool) const {
  CandidatePlan candidate;
  SubPool copy = sub_pool;
  add_columns(candidate, pattern, microbatch, copy);
  if (candidate.pipelines.empty()) return {};
  PipelineReplica pipeline = candidate.pipelines.front();
  pipeline.count = pipelines_of(candidate);
  return pipeline;
}

/// The time of columns whose blocks could be cut anywhere, without embedding, head and sums.
double CandidateGenerator::least_value(const Pattern& pattern, int microbatch, double pipelines, plan::Recompute recompute) {
  double speed = 0, price = 0, own_speed = 0;
  const Kind* before = nullptr;
  for (const Kind& kind : pattern) {
    if (before == nullptr || kind != *before) {  // most stages are as the one before
      const LeastPassTime& s = estimate_.layer_cost_table().least_pass(kind.type, kind.tensor, microbatch, recompute);
      if (!s.usable) return never;
      own_speed = 1 / s.block;
    }
    before = &kind;
    speed += own_speed;
    price += kind.tensor * device_pool_.types[at(kind.type)].price;
  }
  const double pace = device_pool_.request.model.blocks / speed, turns = device_pool_.request.global_batch / (pipelines * microbatch);
  const double seconds = (std::max(1.0, turns) + least_fill_ * (static_cast<double>(pattern.size()) - 1)) * pace;
  return device_pool_.by_throughput() ? seconds : seconds * price * pipelines;
}

double CandidateGenerator::worth_offering() const { return list_.threshold() * tuning::worth_other_schedules; }

Estimate CandidateGenerator::offer(CandidatePlan candidate) {
  if (candidate.pipelines.empty()) return {};
  CandidatePlan whole = candidate;
  const bool limited = device_pool_.request.objective.limits != Limits{};
  const Estimate estimate = estimate_(candidate, limited ? never : worth_offering());
  list_.offer(candidate, estimate);
  fits_with_whole_tokens_ = fits_with_whole_tokens_ || estimate.fits;
  if (estimate.fits) offer_fewer(whole);
  offer_sequence_parallel(whole);
  if (whole.stages() < 2 || !estimate.fits || estimate.value > list_.threshold() * tuning::worth_other_schedules) return estimate;
  for (const plan::ScheduleKind schedule : other_schedules_) {
    CandidatePlan other = whole;
    other.schedule = schedule;
    const Estimate under = estimate_(other, limited ? never : worth_offering());
    if (under.value < estimate.value) list_.offer(other, under);
  }
  return estimate;
}

/// What does not fit may with its tokens sharded. Estimated beside the budget, so that everything else is generated as far as without it.
/// In larger pools that is left to local search.
void CandidateGenerator::offer_sequence_parallel(CandidatePlan candidate) {
  if (device_pool_.request.constraints.sequence_parallel || device_pool_.devices > tuning::pool_of_many_traits) return;
  if (!has_tensor_groups(candidate)) return;
  candidate.sequence_parallel = true;
  ++budget_;
  const bool limited = device_pool_.request.objective.limits != Limits{};
  const Estimate estimate = estimate_(candidate, limited ? never : worth_offering());
  list_.offer(candidate, estimate);
}

/// With a part of the columns: what limits ask for, or costs.
void CandidateGenerator::offer_fewer(const CandidatePlan& whole) {
  const Limits& limits = device_pool_.request.objective.limits;
  std::vector<double> parts;
  const double devices = devices_of(whole), usd = usd_of(whole, device_pool_) * 3600;
  if (limits.devices && devices > *limits.devices) parts.push_back(*limits.devices / devices);
  if (limits.usd_per_hour && usd > *limits.usd_per_hour) parts.push_back(*limits.usd_per_hour / usd);
  const bool costs = !device_pool_.by_throughput() || limits.usd_per_iteration;
  if (costs) parts.push_back(tuning::part_of_columns);
  for (const double part : parts) {
    CandidatePlan candidate = whole;
    for (PipelineReplica& pipeline : candidate.pipelines) pipeline.count = static_cast<int>(pipeline.count * part + 1e-9);
    std::erase_if(candidate.pipelines, [](const PipelineReplica& pipeline) { return pipeline.count == 0; });
    if (candidate.pipelines.empty()) continue;
    const Estimate estimate = estimate_(candidate);
    list_.offer(candidate, estimate);
  }
}

}  // namespace flotilla::search::pool
