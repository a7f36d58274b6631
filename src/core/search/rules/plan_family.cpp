#include "plan_family.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace flotilla::search::rules {
PlanFamily::PlanFamily(const FormulaProblem& p, const Measures& measures, const Rings& rings, const FamilyChoice& choice)
    : p_{&p},
      measures_{&measures},
      weights_{p.weights.get()},
      rings_{rings},
      choice_{choice},
      replicas_{choice.replicas},
      layers_{p.tables.layers()},
      kinds_{static_cast<int>(p.kinds.size())} {
  add_resources();
  add_stage_groups();
  list_stage_types();
  number_rings();
  least_reductions_.assign(at(kinds_) * weights_->bytes.size(), -1);
}

double PlanFamily::price(int kind) const {
  const ReplicaKind& k = p_->kinds[at(kind)];
  double each = p_->groups[at(k.group)].price;
  for (std::size_t g = 0; stands_for_others() && g < p_->groups.size(); ++g) each = std::min(each, p_->groups[g].price);
  return each * k.tensor * replicas_;
}

int PlanFamily::need(const Resource& r, int kind) const {
  const ReplicaKind& k = p_->kinds[at(kind)];
  return (r.groups.empty() ? k.tensor : r.weights[at(k.group)] * k.tensor) / r.scale;
}

void PlanFamily::add_resources() {
  const int groups = static_cast<int>(p_->groups.size());
  for (int g = 0; g < groups; ++g) {
    // Where stages are spread over regions, so are their devices.
    const auto alike = [&](const Resource& r) { return choice_.across && p_->groups[at(r.groups.front())].type == p_->groups[at(g)].type; };
    const bool all = stands_for_others() && g > 0;
    const auto found = all ? resources_.begin() : std::ranges::find_if(resources_, alike);
    (found == resources_.end() ? resources_.emplace_back() : *found).groups.push_back(g);
  }
  for (Resource& r : resources_) put_together(r, p_->tiny || choice_.across ? 1 : tuning::rules_finest_weights);
  if (const auto& limit = p_->request.objective.limits.devices; limit && resources_.size() == 1) {
    Resource& r = resources_.front();
    r.devices = std::min(r.devices, *std::ranges::max_element(r.weights) * std::int64_t{*limit});
  } else if (limit) {
    resources_.emplace_back();
    resources_.back().devices = *limit;
  }
  merge_resources();
  std::ranges::sort(resources_, [](const Resource& x, const Resource& y) { return x.units > y.units; });
}

/// Weights the devices of a resource of several groups by their speed, as finely as `scale` and the number of units allow.
void PlanFamily::put_together(Resource& r, int scale) const {
  r.weights.assign(p_->groups.size(), 0);
  std::int64_t all = 0;
  for (const int g : r.groups) all += p_->usable(g, replicas_);
  if (r.groups.size() > 1)
    scale = static_cast<int>(std::clamp<std::int64_t>(tuning::rules_weighted_units * replicas_ / std::max<std::int64_t>(all, 1), 1, scale));
  int j = 0;
  while (j + 1 < measures_->paces() && measures_->pace(j) < choice_.pace) ++j;
  double fastest = 0;
  for (const int g : r.groups) fastest = std::max(fastest, measures_->rate(g, j));
  r.devices = 0;
  for (const int g : r.groups) {
    const double speed = fastest > 0 ? measures_->rate(g, j) / fastest : 1;
    r.weights[at(g)] = r.groups.size() == 1 ? 1 : std::max(1, static_cast<int>(std::lround(scale * speed)));
    r.devices += std::int64_t{r.weights[at(g)]} * p_->usable(g, replicas_);
  }
}

/// Of all resources; returns the number of their combinations.
std::int64_t PlanFamily::count_units() {
  int most_need = 1;
  std::int64_t product = 1;
  for (Resource& r : resources_) {
    r.scale = 1;
    for (int k = 0; k < kinds_; ++k) most_need = std::max(most_need, need(r, k));
    const std::int64_t useful = std::int64_t{layers_} * most_need;
    r.units = static_cast<int>(std::min(r.devices / replicas_, useful));
    r.relaxation = static_cast<int>(std::min<std::int64_t>(r.devices - std::int64_t{r.units} * replicas_, replicas_ * useful));
    r.scale = 1 + r.units / tuning::rules_units;
    r.units /= r.scale;
    product = std::min(product * (r.units + 1), std::int64_t{1} << 40);
  }
  return product;
}

/// The limit is forgotten first, then the largest two are put together.
void PlanFamily::merge_resources() {
  const std::int64_t most = (choice_.grain == Grain::plain ? tuning::rules_plain_states : tuning::rules_states) / sides();
  while (count_units() > most || resources_.size() > most_resources) {
    if (resources_.size() == 1) return;
    if (resources_.back().groups.empty()) {
      resources_.pop_back();
      continue;
    }
    std::ranges::sort(resources_, [](const Resource& x, const Resource& y) { return x.units < y.units; });
    const Resource last = resources_.back();
    resources_.pop_back();
    resources_.back().groups.insert(resources_.back().groups.end(), last.groups.begin(), last.groups.end());
    put_together(resources_.back(), tuning::rules_coarse_weights);
  }
}

void PlanFamily::add_stage_groups() {
  for (int k = 0; k < kinds_; ++k) {
    if (!measures_->usable(k)) continue;
    StageGroup stage_group;
    stage_group.kind = k;
    stage_group.side = sides() > 1 ? p_->groups[at(p_->kinds[at(k)].group)].region : 0;
    for (std::size_t r = 0; r < resources_.size(); ++r) stage_group.units[r] = static_cast<std::int16_t>(need(resources_[r], k));
    stage_group.price = price(k);
    stage_groups_.push_back(stage_group);
  }
  if (std::ranges::any_of(resources_, [](const Resource& r) { return r.scale > 1; })) return;
  if (stands_for_others() || choice_.grain == Grain::plain || replicas_ < 2 || p_->groups.size() > tuning::rules_mixed_groups) return;
  for (int k = 0; k < kinds_; ++k)
    for (int o = k + 1; o < kinds_; ++o)
      if (measures_->usable(k) && measures_->usable(o) && may_mix(p_->kinds[at(k)], p_->kinds[at(o)])) add_mixed(k, o);
}

bool PlanFamily::may_mix(const ReplicaKind& k, const ReplicaKind& o) const {
  if (k.group == o.group || (p_->request.restrictions.one_tensor_degree_per_stage && k.tensor != o.tensor)) return false;
  return !choice_.across || p_->groups[at(k.group)].type != p_->groups[at(o.group)].type;
}

const PlanFamily::Resource& PlanFamily::resource_of(int group) const {
  return *std::ranges::find_if(resources_, [&](const Resource& r) { return !r.groups.empty() && r.weights[at(group)] > 0; });
}

/// For every number of units that the one kind may take: as many replicas of it as go in, and the units that the others need. Where both
/// take from one resource, or from a limit too, the other way about as well.
void PlanFamily::add_mixed(int kind, int other) {
  const ReplicaKind &k = p_->kinds[at(kind)], &o = p_->kinds[at(other)];
  const Resource &mine = resource_of(k.group), &theirs = resource_of(o.group);
  const bool together = &mine == &theirs, limited = std::ranges::any_of(resources_, [](const Resource&r) { return r.groups.empty(); });
  const auto room = [&](const Resource& r, int units, int of) {
    return static_cast<int>(std::min<std::int64_t>((r.relaxation + std::int64_t{units} * replicas_) / need(r, of), replicas_ - 1));
  };
  std::vector<int> counts;
  for (int j = 0; j <= std::min(need(mine, kind), mine.units); ++j) counts.push_back(room(mine, j, kind));
  if (together || limited) {
    for (int j = 0; j <= std::min(need(theirs, other), theirs.units); ++j) counts.push_back(replicas_ - room(theirs, j, other));
    counts.push_back(1);
  }
  std::vector<StageGroup> found;
  for (const int count : counts) {
    if (count < 1 || count > replicas_ - 1) continue;
    StageGroup stage_group = mixed_stage_group(kind, other, count);
    const auto in = [&](const Resource& r) { return stage_group.units[at(&r - resources_.data())]; };
    stage_group.least = stage_group.most = count;
    if (!together) {
      stage_group.most = room(mine, in(mine), kind);
      stage_group.least = std::min(count, std::max(1, replicas_ - room(theirs, in(theirs), other)));
    }
    const auto price = [&](int x) {
      return x * k.tensor * p_->groups[at(k.group)].price + (replicas_ - x) * o.tensor * p_->groups[at(o.group)].price;
    };
    stage_group.price = std::min(price(stage_group.least), price(stage_group.most));
    const auto no_less = [&](const StageGroup& t) {
      for (std::size_t r = 0; r < resources_.size(); ++r)
        if (t.units[r] > stage_group.units[r]) return false;
      return t.price <= stage_group.price;
    };
    if (std::ranges::none_of(found, no_less)) found.push_back(stage_group);
  }
  stage_groups_.insert(stage_groups_.end(), found.begin(), found.end());
}

/// `count` replicas of the one kind, the others of the other: units beside the devices that whole units leave over.
StageGroup PlanFamily::mixed_stage_group(int kind, int other, int count) const {
  StageGroup stage_group;
  stage_group.kind = kind;
  stage_group.other = other;
  const auto region = [&](int x) { return p_->groups[at(p_->kinds[at(x)].group)].region; };
  stage_group.side = sides() == 1 ? 0 : region(kind) == region(other) ? region(kind) : p_->regions;
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    const Resource& from = resources_[r];
    const std::int64_t devices =
        std::int64_t{count} * need(from, kind) + std::int64_t{replicas_ - count} * need(from, other) - from.relaxation;
    stage_group.units[r] = static_cast<std::int16_t>(devices <= 0 ? 0 : (devices + replicas_ - 1) / replicas_);
  }
  return stage_group;
}

/// A stage in two regions has replicas in another one than any stage in one.
double PlanFamily::into(int kind, int side, int layer) const {
  return side < p_->regions ? measures_->link_into(kind, side, layer) : measures_->link_out(kind, layer);
}

double PlanFamily::sending(const StageGroup& t, int side, int layer) const {
  const bool near = sides() == 1 || (side == p_->regions && t.side == side);
  const double one = near ? measures_->least_link(t.kind, layer) : into(t.kind, side, layer);
  return !t.mixed() ? one : std::max(one, near ? measures_->least_link(t.other, layer) : into(t.other, side, layer));
}

void PlanFamily::list_stage_types() {
  std::vector<int> numbers(at(kinds_) * at(kinds_ + 2), -1);
  for (int t = 0; t < static_cast<int>(stage_groups_.size()); ++t) {
    const StageGroup& stage_group = stage_groups_[at(t)];
    int& number = numbers[at(stage_type(stage_group))];
    if (number < 0) {
      number = static_cast<int>(stage_types_.size());
      stage_types_.emplace_back();
      stage_types_.back().kind = stage_types_.back().cheaper = stage_group.kind;
      stage_types_.back().other = stage_group.other;
      if (stage_group.mixed() && price(stage_group.other) < price(stage_group.kind)) stage_types_.back().cheaper = stage_group.other;
      if (stage_group.mixed() && stage_group.kind > 0 && same_group(stage_group.kind, stage_group.kind - 1))
        stage_types_.back().smaller[0] = numbers[at(kinds_ * stage_group.kind + stage_group.other)];
      if (stage_group.mixed() && same_group(stage_group.other, stage_group.other - 1))
        stage_types_.back().smaller[1] = numbers[at(kinds_ * (stage_group.kind + 1) + stage_group.other - 1)];
    }
    auto& alike = stage_types_[at(number)].stage_groups;
    alike.push_back(t);
    if (stage_group.price < stage_groups_[at(alike.front())].price) std::swap(alike.front(), alike.back());
  }
}

/// Rings of two kinds depend on their groups, and on how many ways the smaller degree shares a gradient.
void PlanFamily::number_rings() {
  rings_of_.assign(at(kinds_) * at(kinds_ + 2), -1);
  stage_groups_of_ring_.resize(at(kinds_));
  std::vector<std::array<int, 3>> mixed;
  int count = kinds_;
  for (int t = 0; t < static_cast<int>(stage_groups_.size()); ++t) {
    const StageGroup& stage_group = stage_groups_[at(t)];
    int& number = rings_of_[at(stage_type(stage_group))];
    if (number >= 0) continue;
    number = stage_group.kind;
    bool fresh = true;
    if (stage_group.mixed()) {
      const ReplicaKind &k = p_->kinds[at(stage_group.kind)], &o = p_->kinds[at(stage_group.other)];
      const std::array<int, 3> same{k.group, o.group, std::min({sailor::most_gradient_shares, k.tensor, o.tensor})};
      const auto found = std::ranges::find(mixed, same);
      number = kinds_ + static_cast<int>(found - mixed.begin());
      if (found == mixed.end()) mixed.push_back(same), ++count;
      const auto known = [&](int other) { return rings_of_[at(stage_type(stage_groups_[at(other)]))] == number; };
      fresh = std::ranges::none_of(stage_groups_of_ring_[at(stage_group.kind)], known);
      if (std::ranges::none_of(stage_groups_of_ring_[at(stage_group.other)], known))
        stage_groups_of_ring_[at(stage_group.other)].push_back(t);
    }
    if (fresh) stage_groups_of_ring_[at(stage_group.kind)].push_back(t);
  }
  reductions_.assign(at(count) * weights_->bytes.size(), replicas_ < 2 ? 0 : -1);
}

double PlanFamily::find_least_reduction(int kind, int weights) const {
  double least = never;
  for (const int stage_group : stage_groups_of_ring_[at(kind)]) least = std::min(least, reduction(stage_groups_[at(stage_group)], weights));
  return least;
}

double PlanFamily::find_reduction(const StageGroup& stage_group, int weights) const {
  const ReplicaKind& k = p_->kinds[at(stage_group.kind)];
  const ReplicaKind* o = stage_group.mixed() ? &p_->kinds[at(stage_group.other)] : nullptr;
  const double bytes =
      weights_->bytes[at(weights)] / std::min({sailor::most_gradient_shares, k.tensor, o ? o->tensor : sailor::most_gradient_shares});
  if (choice_.across) return rings_.least_across(replicas_, bytes);
  if (o) return rings_.least_between(k.group, o->group, replicas_, bytes);
  if (!stands_for_others()) return rings_.least(k, replicas_, bytes);
  double least = never;
  for (int g = 0; g < static_cast<int>(p_->groups.size()); ++g) least = std::min(least, rings_.least_between(k.group, g, replicas_, bytes));
  return least;
}

}  // namespace flotilla::search::rules
