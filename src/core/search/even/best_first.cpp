#include "best_first.hpp"

#include <algorithm>
#include <limits>

#include "../obedience.hpp"
#include "../tuning.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::search::even {
bool BestFirst::Later::operator()(const Entry& a, const Entry& b) const {
  if (a.bound != b.bound) return a.bound > b.bound;
  if (a.devices != b.devices) return a.devices > b.devices;
  return a.order > b.order;
}

BestFirst::BestFirst(const Problem& problem)
    : problem_{problem}, configurations_{configurations(problem)}, incumbents_{problem.request.alternatives}, abandoned_{never} {
  for (std::size_t c = 0; c < configurations_.size(); ++c) {
    Entry entry;
    entry.bound = quick_bound(problem, configurations_[c]);
    entry.devices = configurations_[c].placement->device_count();
    entry.configuration = c;
    push(std::move(entry));
  }
}

void BestFirst::push(Entry entry) {
  entry.order = order_++;
  heap_.push_back(std::move(entry));
  std::ranges::push_heap(heap_, Later{});
}

BestFirst::Entry BestFirst::pop() {
  std::ranges::pop_heap(heap_, Later{});
  Entry top = std::move(heap_.back());
  heap_.pop_back();
  return top;
}

void BestFirst::run() {
  for (int steps = 0; !heap_.empty() && heap_.front().bound < best_seconds() * (1 - problem_.request.tolerance); ++steps) {
    if (asked_to_stop() || steps >= tuning::even_steps || considered_ >= tuning::even_forecasts) return;
    step();
  }
  look_for_alternatives();
}

bool BestFirst::asked_to_stop() {
  if (problem_.request.should_stop && problem_.request.should_stop()) stopped_ = true;
  return stopped_;
}

void BestFirst::step() {
  Entry entry = pop();
  switch (entry.state) {
    case State::configuration: open(std::move(entry)); return;
    case State::family: yield_plan(std::move(entry)); return;
    case State::plan: forecast(*entry.plan); return;
  }
}

void BestFirst::open(Entry entry) {
  entry.cuts = std::make_shared<CutSearch>(problem_, configurations_[entry.configuration]);
  entry.state = State::family;
  if (entry.cuts->bound() == never) {
    ++pruned_;  // no cut fits by the memory bound
    return;
  }
  entry.bound = std::max(entry.bound, entry.cuts->bound());
  push(std::move(entry));
}

void BestFirst::yield_plan(Entry entry) {
  const auto cuts = entry.cuts->next();
  if (cuts.empty()) return;
  Entry found = entry;
  found.cuts = nullptr;
  found.state = State::plan;
  found.plan = std::make_shared<plan::Plan>(make_plan(problem_, configurations_[entry.configuration], cuts));
  found.bound = std::max(entry.bound, problem_.forecaster.lower_bound(*found.plan).value);
  push(std::move(found));
  entry.bound = std::max(entry.bound, entry.cuts->bound());
  if (entry.bound == never) return;
  if (++entry.yielded < tuning::even_cuts)
    push(std::move(entry));
  else
    abandoned_ = std::min(abandoned_, entry.bound);
}

void BestFirst::offer(plan::Plan plan) { forecast(plan); }

void BestFirst::forecast(const plan::Plan& plan) {
  if (!keeps_restrictions(plan, problem_.request.restrictions)) return;
  try {
    auto found = evaluate(problem_, plan);
    ++considered_;
    if (over_limits(found.forecast.iteration, found.forecast.expense, found.devices, problem_.request.objective.limits) <= 1)
      incumbents_.offer(std::move(found));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unavailable) throw;
    if (refusal_.empty()) refusal_ = error.what();
    ++pruned_;
  }
}

void BestFirst::look_for_alternatives() {
  if (!incumbents_.best()) return;
  // Plans that cannot win any more, one of each configuration, for the sake of the comparison; the heap is left as the proof needs it.
  const auto heap = heap_;
  const auto pruned = pruned_;
  const double abandoned = abandoned_;
  std::vector<std::size_t> met;
  for (int left = tuning::even_comparisons; left > 0 && !heap_.empty() && !incumbents_.full();) {
    if (asked_to_stop()) break;
    const Entry& top = heap_.front();
    if (std::ranges::find(met, top.configuration) != met.end()) {
      (void)pop();
      continue;
    }
    if (top.state == State::plan) {
      met.push_back(top.configuration);
      --left;
    }
    step();
  }
  heap_ = heap;
  pruned_ = pruned;
  abandoned_ = abandoned;
}

double BestFirst::best_seconds() const { return incumbents_.best() ? incumbents_.best()->forecast.iteration.value : never; }

double BestFirst::left_bound() const { return std::min(abandoned_, heap_.empty() ? never : heap_.front().bound); }

}  // namespace flotilla::search::even
