#include <algorithm>

#include "outcome.hpp"

namespace flotilla::search {
namespace {

using namespace rules;

constexpr double rounding = 1 - 1e-9;
constexpr int dive_width = 12;
constexpr int most_shapes = 400;                      // realised without a better plan coming of it
constexpr std::int64_t most_partial_plans = 400'000;  // kept at once; the search ends there, unfinished

/// The best plans so far, each of another shape.
class Best {
 public:
  explicit Best(int alternatives) : most_{static_cast<std::size_t>(alternatives) + 1} {}
  bool add(const Candidate& c) {
    if (c.value >= never) return false;
    const auto place = std::ranges::find_if(plans_, [&](const Candidate& known) { return is_better(c, known); });
    const bool first = place == plans_.begin();
    plans_.insert(place, c);
    if (plans_.size() > most_) plans_.pop_back();
    return first;
  }
  double value() const { return plans_.empty() ? never : plans_.front().value; }
  const std::vector<Candidate>& plans() const { return plans_; }

 private:
  std::size_t most_;
  std::vector<Candidate> plans_;
};

class Search {
 public:
  Search(const PoolRequest& request, const cluster::Profile& library)
      : library_{library}, problem_{request, library}, realiser_{problem_}, best_{request.alternatives} {}

  PoolAnswer run() {
    const bool exhaustive = realiser_.exhaustive();
    if (problem_.entries.size() > 1 && !exhaustive) dive();
    pass({false, true, most_shapes});
    if (best_.value() < never && !proven()) pass({true, true, most_shapes / 4});
    PoolAnswer a = answer();
    a.finished = proven();
    a.pruned = pruned_;
    if (!a.best) a.no_plan_reason = stopped_ ? "stopped before any plan was found" : why_none(problem_, library_, measures_);
    return a;
  }

 private:
  bool proven() const { return !stopped_ && least_ >= best_.value() * (1 - problem_.request.tolerance) * rounding; }

  /// Relaxed plans in the order of their bounds, until none is left below the best plan, or nothing better came of many.
  struct Pass {
    bool tell_places_apart, mix_types;
    int most_in_vain;
  };
  void pass(const Pass& how) {
    const PoolRequest& r = problem_.request;
    const Links links{problem_, how.tell_places_apart};
    if (how.tell_places_apart && !links.by_place) return;
    measures_.clear();
    for (const int m : problem_.sequences) measures_.emplace_back(problem_, links, m);
    RelaxedSearch relaxed{
        problem_, links, measures_, {!realiser_.exhaustive(), how.mix_types, most_partial_plans / (how.tell_places_apart ? 4 : 1)}};
    relaxed.must_beat(best_.value() * (1 - r.tolerance));
    double unresolved = never;  // least bound of a shape of which no plan as good was found
    int in_vain = 0;
    while (in_vain < how.most_in_vain) {
      const auto shape = relaxed.next(r.should_stop);
      if (!shape) break;
      const Candidate found = realiser_.best(*shape, best_.value());
      if (!realiser_.exhaustive() && found.value * rounding > shape->bound) unresolved = std::min(unresolved, shape->bound);
      in_vain = best_.add(found) || realiser_.exhaustive() ? 0 : in_vain + 1;
      relaxed.must_beat(best_.value() * (1 - r.tolerance));
    }
    const bool cut = relaxed.cut_short() || in_vain >= how.most_in_vain;
    if (how.mix_types || problem_.groups.size() == 1) {
      least_ = std::max(least_, std::min(relaxed.least_open(), unresolved));
      stopped_ = stopped_ || cut;
    }
    pruned_ += relaxed.pruned();
  }

  /// A good plan early keeps the room small: bounds exclude more.
  void dive() {
    const Links links{problem_, false};
    for (const int m : problem_.sequences) measures_.emplace_back(problem_, links, m);
    RelaxedSearch relaxed{problem_, links, measures_, {true, false, most_partial_plans}};
    while (relaxed.can_dive() && !(problem_.request.should_stop && problem_.request.should_stop())) {
      for (const RelaxedPlan& shape : relaxed.dive(dive_width)) best_.add(realiser_.best(shape, best_.value()));
      relaxed.must_beat(best_.value());
    }
  }

  PoolAnswer answer() const {
    PoolAnswer a;
    a.considered = realiser_.considered();
    a.space = space_of(problem_);
    if (best_.plans().empty()) return a;
    const Candidate& best = best_.plans().front();
    a.best = pooled(problem_, best);
    a.binding = binding(problem_, best);
    a.bound_gap = std::clamp(1 - std::min(least_, best.value) / best.value, 0.0, 1.0);
    for (std::size_t i = 1; i < best_.plans().size(); ++i) {
      a.alternatives.push_back(pooled(problem_, best_.plans()[i]));
      a.alternatives.back().reason = why_lost(problem_, best_.plans()[i], best);
    }
    return a;
  }

  const cluster::Profile& library_;
  Problem problem_;
  Realiser realiser_;
  std::vector<Measures> measures_;
  Best best_;
  double least_ = 0;  ///< no plan of the space is below this
  bool stopped_ = false;
  std::int64_t pruned_ = 0;
};

}  // namespace

PoolAnswer plan_by_rules(const PoolRequest& request, const cluster::Profile& library) { return Search{request, library}.run(); }

}  // namespace flotilla::search
