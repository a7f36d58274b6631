// Good plans before there is a proof.
#include <algorithm>

#include "search.hpp"

namespace flotilla::search::rules {
namespace {

constexpr double likely_shares = 2;  // of the gradients, by tensor parallelism
constexpr std::size_t most_likely = 4, most_more_likely = 40;
constexpr int paces_looked_at = 60;
constexpr std::size_t most_looked_at = 4000;
constexpr double hopeful = 1.4;  // times the likeliest value
constexpr std::int64_t few_steps = 3'000'000;
constexpr double worth_moving = 1.1;  // times the best value

}  // namespace

/// What the value may come to: stages as even as the least pace, which bounds do not promise; or as a slower one that costs less.
Search::Likely Search::likely(const Start& s) const {
  const Problem& p = s.scope->problem;
  const double work = s.measures->least_compute(p.tables.layers());
  const auto time = [&](double pace) {
    const double weights = p.weights->bytes.back() * (work > 0 ? std::min(1.0, pace / work) : 1) / likely_shares;
    const double ring = s.replicas < 2 ? 0 : s.scope->rings.least_of_all(s.replicas, weights);
    return (s.microbatches - 1) * pace + work + ring;
  };
  if (!problem_.by_price()) return {time(s.first.likely_pace), time(s.first.likely_pace)};
  Likely best{never, 0};
  for (int j = 0; j < s.measures->paces(); j += 1 + s.measures->paces() / paces_looked_at)
    if (const double seconds = time(s.measures->pace(j)); s.measures->pace(j) >= s.first.likely_pace) {
      const double value = value_.least(seconds, s.replicas * work * s.measures->price(j), 0);
      if (value < best.value) best = {value, seconds};
    }
  return best;
}

/// A good plan early excludes more.
void Search::try_likely(bool guess) {
  std::vector<int> all;
  for (int s = 0; s < static_cast<int>(starts_.size()); ++s) {
    const Start& start = starts_[at(s)];
    const bool asked = start.scope->use != Scope::Use::guess_of_type && guess == start.scope->is_guess();
    if (asked && !start.by_rings && start.first.likely_pace < never) all.push_back(s);
  }
  std::vector<std::pair<double, int>> order;
  for (std::size_t i = 0; i < all.size(); i += 1 + all.size() / most_looked_at)
    order.emplace_back(likely(starts_[at(all[i])]).value, all[i]);
  if (order.empty()) return;
  std::ranges::sort(order);
  std::vector<int> chosen;
  const auto choose = [&](int s) {
    if (std::ranges::find(chosen, s) == chosen.end()) chosen.push_back(s);
  };
  // The likeliest, and other microbatches with as many replicas: these fit the devices.
  for (std::size_t i = 0; i < std::min(order.size(), most_likely); ++i) {
    choose(order[i].second);
    for (const auto& [value, s] : order)
      if (starts_[at(s)].replicas == starts_[at(order[i].second)].replicas) choose(s);
  }
  // Where proofs take long, more of them.
  const Problem& first = scopes_.front()->problem;
  const std::size_t more = first.groups.size() < many_groups && !first.by_price() ? 0 : most_more_likely;
  for (std::size_t i = most_likely; i < std::min(order.size(), most_likely + more); ++i) choose(order[i].second);
  // What is much worse than the likeliest need not be looked at, as long as something is found.
  const double hope = order.empty() ? never : order.front().first * hopeful;
  for (const int s : chosen)
    if (work() < most_work / 6 && !told_to_stop()) try_start(s, std::min(hope, target()));
  for (const int s : chosen)
    if (best_.plans().empty() && work() < most_work / 3 && !told_to_stop()) try_start(s, target());
}

void Search::try_start(int start, double below) {
  Box box;
  // Not a bound: the weight that devices' prices get.
  if (problem_.by_price()) box.above_time = likely(starts_[at(start)]).time;
  const Problem& p = starts_[at(start)].scope->problem;
  const Family& f = family(start, p.groups.size() > 1 ? Grain::plain : Grain::fine);
  for (const Depth depth : {Depth::few, Depth::many}) {
    box.depth = depth;
    const Rest rest{p, f, box, value_, std::min(below, target())};
    work_ += rest.work();
    const auto path = rest.bound() < std::min(below, target()) ? rest.path() : std::nullopt;
    if (!path || try_shape(start, shape_of(f, *path, rest.bound()))) continue;
    // What is best by these sums does not fit in memory.
    Lay lay{p, f, box, value_, rest, few_steps};
    lay.must_beat(std::min(below, target()));
    if (const auto shape = lay.next(problem_.request.should_stop)) try_shape(start, *shape);
    work_ += lay.work();
  }
}

/// False when no plan comes of it.
bool Search::try_shape(int start, const Shape& shape) {
  Scope& scope = *starts_[at(start)].scope;
  const Candidate found = scope.realiser.best(shape, best_.value());
  best_.add(found);
  if (!problem_.request.restrictions.even_layers && found.value < best_.value() * worth_moving) best_.add(scope.realiser.moved(found));
  return found.value < never;
}

}  // namespace flotilla::search::rules
