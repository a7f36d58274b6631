#include "replica_plans.hpp"

#include <algorithm>
#include <numeric>

#include "flotilla/base/error.hpp"

namespace flotilla::fixture {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Equal columns: where each stage stands, by entry of the pool.
struct Kind {
  std::vector<int> places;
  int count = 0, microbatch = 1;
};

class Enumeration {
 public:
  Enumeration(const Instance& i, const Judge& judge) : i_{i}, r_{i.request}, judge_{judge} {
    for (const auto& entry : r_.pool) {
      left_.push_back(entry.count);
      peaks_.push_back(cluster::find_type(i.library, entry.device_type)->peak_fp32.value);
    }
  }

  BestColumnPlan run() {
    cuts_ = {0};
    cut();
    return best_;
  }

 private:
  void cut() {
    const int devices = std::accumulate(left_.begin(), left_.end(), 0);
    if (cuts_.back() == r_.model.layers()) return degree();
    if (static_cast<int>(cuts_.size()) > devices) return;
    for (int next = cuts_.back() + 1; next <= r_.model.layers(); ++next) {
      cuts_.push_back(next);
      cut();
      cuts_.pop_back();
    }
  }

  void degree() {
    if (degrees_.size() + 1 == cuts_.size()) {
      first_kind_ = {std::vector<int>(degrees_.size(), 0), 0, 1};
      return add_kinds(first_kind_.places);
    }
    for (const int d : {1, 2}) {
      if (d > r_.model.heads) continue;
      degrees_.push_back(d);
      degree();
      degrees_.pop_back();
    }
  }

  /// Kinds of columns from `places` on, in lexicographic order.
  void add_kinds(std::vector<int> places) {
    if (!kinds_.empty()) choose_microbatch(0);
    do {
      int taken = 0;
      while (take(places)) {
        ++taken;
        kinds_.push_back({places, taken, 1});
        auto next = places;
        if (advance(next))
          add_kinds(next);
        else
          choose_microbatch(0);
        kinds_.pop_back();
      }
      give_back(places, taken);
    } while (advance(places));
  }

  bool advance(std::vector<int>& places) const {
    for (std::size_t s = places.size(); s-- > 0;) {
      if (++places[s] < static_cast<int>(left_.size())) return true;
      places[s] = 0;
    }
    return false;
  }

  bool take(const std::vector<int>& places) {
    for (std::size_t s = 0; s < places.size(); ++s)
      if (degrees_[s] > r_.pool[at(places[s])].per_node) return false;
    for (std::size_t s = 0; s < places.size(); ++s) left_[at(places[s])] -= degrees_[s];
    if (std::ranges::all_of(left_, [](int l) { return l >= 0; })) return true;
    give_back(places, 1);
    return false;
  }
  void give_back(const std::vector<int>& places, int times) {
    for (std::size_t s = 0; s < places.size(); ++s) left_[at(places[s])] += degrees_[s] * times;
  }

  void choose_microbatch(std::size_t kind) {
    if (kind == kinds_.size()) {
      const auto even = shares(true), fast = shares(false);
      judge(even);
      if (fast != even) judge(fast);
      return;
    }
    for (const int m : {1, 2, 4}) {
      if (m > r_.global_batch) continue;
      kinds_[kind].microbatch = m;
      choose_microbatch(kind + 1);
    }
  }

  double speed(const Kind& kind) const {
    double least = 1e300;
    for (std::size_t s = 0; s < kind.places.size(); ++s)
      least = std::min(least, peaks_[at(kind.places[s])] * degrees_[s] / (cuts_[s + 1] - cuts_[s]));
    return least;
  }

  /// Sequences of each column.
  std::vector<int> shares(bool evenly) const {
    std::vector<double> speeds;
    for (const Kind& kind : kinds_) speeds.insert(speeds.end(), at(kind.count), evenly ? 1 : speed(kind));
    const double all = std::accumulate(speeds.begin(), speeds.end(), 0.0);
    std::vector<int> shares;
    int left = r_.global_batch;
    for (const double s : speeds) {
      shares.push_back(static_cast<int>(r_.global_batch * s / all + 1e-9));
      left -= shares.back();
    }
    for (; left > 0; --left) {  // to those that would end first
      std::size_t first = 0;
      for (std::size_t c = 1; c < shares.size(); ++c)
        if ((shares[c] + 1) / speeds[c] < (shares[first] + 1) / speeds[first]) first = c;
      ++shares[first];
    }
    return shares;
  }

  void judge(const std::vector<int>& shares) {
    if (std::ranges::find(shares, 0) != shares.end()) return;
    for (const Kind& kind : kinds_)  // microbatches that are never full are those of half the size
      if (kind.microbatch / 2 >= *std::ranges::max_element(shares)) return;
    for (const auto recompute : {plan::Recompute::none, plan::Recompute::full}) judge(shares, recompute);
  }

  void judge(const std::vector<int>& shares, plan::Recompute recompute) {
    plan::Plan plan;
    plan.model = r_.model, plan.length = r_.length, plan.global_batch = r_.global_batch, plan.precision = r_.precision;
    plan.quantum = r_.global_batch;
    for (const int share : shares) plan.quantum = std::gcd(plan.quantum, share);
    for (const Kind& kind : kinds_) plan.quantum = std::gcd(plan.quantum, kind.microbatch);
    for (std::size_t s = 0; s < degrees_.size(); ++s) {
      plan::Stage stage{cuts_[s], cuts_[s + 1], recompute, {}};
      std::size_t pipeline = 0;
      for (const Kind& kind : kinds_)
        for (int c = 0; c < kind.count; ++c) {
          const auto& entry = r_.pool[at(kind.places[s])];
          stage.replicas.push_back({entry.device_type, entry.zone, degrees_[s], {}, kind.microbatch / plan.quantum, shares[pipeline++]});
        }
      plan.stages.push_back(std::move(stage));
    }
    const bool groups = std::ranges::any_of(degrees_, [](int degree) { return degree > 1; });  // else devices were counted
    if (!judge_.broken_restriction(plan).empty() || (groups && !judge_.in_the_pool(plan))) return;
    try {
      ++best_.forecasts;
      const Verdict v = judge_.forecast(plan);
      if (v.fits && v.value && *v.value < best_.value && judge_.keeps_limits(v)) best_.value = *v.value, best_.plan = plan;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unavailable) throw;  // the runtime cannot execute it
    }
  }

  const Instance& i_;
  const search::PlanRequest& r_;
  const Judge& judge_;
  std::vector<int> left_, cuts_, degrees_;
  std::vector<double> peaks_;
  Kind first_kind_;
  std::vector<Kind> kinds_;
  BestColumnPlan best_;
};

}  // namespace

BestColumnPlan best_column_plan(const Instance& i, const Judge& judge) { return Enumeration{i, judge}.run(); }

}  // namespace flotilla::fixture
