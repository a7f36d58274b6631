#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cuts.hpp"
#include "incumbents.hpp"

namespace flotilla::search::even {

/// Branch and bound over all configurations at once, for the least time of an iteration: always the one whose bound is lowest is taken a
/// step further (its mean work -> its best cut -> that plan's own bound -> its forecast), until no bound is below the best forecast.
class BestFirst {
 public:
  explicit BestFirst(const Problem&);
  /// A plan from elsewhere that those found here are held against.
  void offer(plan::Plan);
  void run();

  const Incumbents& incumbents() const { return incumbents_; }
  const std::vector<Configuration>& all() const { return configurations_; }
  std::int64_t considered() const { return considered_; }
  std::int64_t pruned() const { return pruned_ + static_cast<std::int64_t>(heap_.size()); }
  bool finished() const { return !stopped_ && left_bound() >= best_seconds(); }
  bool stopped() const { return stopped_; }
  /// Seconds that no plan which was not forecast is below.
  double left_bound() const;
  const std::string& refusal() const { return refusal_; }  ///< why the forecaster cannot do a plan; the first one met

 private:
  enum class State { configuration, family, plan };
  struct Entry {
    double bound = 0;
    int devices = 0;
    std::int64_t order = 0;
    State state = State::configuration;
    std::size_t configuration = 0;
    std::shared_ptr<CutSearch> cuts;
    std::shared_ptr<plan::Plan> plan;
    int yielded = 0;
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const;
  };

  void push(Entry);
  Entry pop();
  void step();
  void open(Entry);
  void yield_plan(Entry);
  void forecast(const plan::Plan&);
  bool asked_to_stop();
  double best_seconds() const;
  void look_for_alternatives();

  const Problem& problem_;
  std::vector<Configuration> configurations_;
  Incumbents incumbents_;
  std::vector<Entry> heap_;
  std::int64_t order_ = 0, considered_ = 0, pruned_ = 0;
  double abandoned_ = 0;  ///< lowest bound of the cuts that were given up; set in the constructor to infinity
  bool stopped_ = false;
  std::string refusal_;
};

}  // namespace flotilla::search::even
