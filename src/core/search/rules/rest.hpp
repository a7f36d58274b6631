#pragma once
#include <algorithm>
#include <optional>

#include "family.hpp"
#include "glance.hpp"
#include "sweep.hpp"
#include "value.hpp"

namespace flotilla::search::rules {

/// How many stages: in pipelines of more than three, the first one sends twice.
enum class Depth { any, few, many };

/// Plans of a family that are looked at together: their slowest stage, their longest reduction and their price lie in these ranges.
struct Box {
  Depth depth = Depth::any;
  int blocks = -1;  ///< that every stage holds, or one more; -1: any number
  double above = 0, pace = never;
  double above_reduction = 0, reduction = never;
  double above_price = 0, price = never;  ///< per hour
  double above_time = 0;                  ///< of an iteration
};

/// A stage of a path: layers, and the number of its team.
struct Step {
  int first = 0, last = 0, team = 0;
};
/// The best way through all layers by the relaxed costs, and what it comes to by them.
struct Path {
  std::vector<Step> steps;  ///< first stage first
  double sum = 0, pace = 0, reduction = 0, price = 0;
  double mean_pace = 0, mean_reduction = 0;  ///< as the bound counts them
  double time(int microbatches) const { return sum + (microbatches - 1) * pace + reduction; }
};

/// What the layers in front of a node take at least when so many units of every resource are left, for every node and all units: dynamic
/// programming over layers and units. The time of a plan is sum + (n - 1) pace + reduction + update; the maxima are at least the means over
/// the stages, weighted by their shares of the work, each stage's time at least the box's lower end. So the bound is a sum over stages; it
/// is close where stages are even or the box is narrow. Only stages that some plan below `target` can have by these sums are looked at.
class Rest {
 public:
  /// `glance`: a bound that is soon found will do; then the rest may not be known.
  Rest(const Problem&, const Family&, const Box&, const Value&, double target, bool glance = false);

  /// Of the value of all plans in the box that are below the target.
  double bound() const { return bound_; }
  /// The best by time, or by the blend where the goal is a price; none where the bound is not below the target.
  std::optional<Path> path() const;

  Node node(int layer, int side) const { return layer < layers_ ? layer * sides_ + side : layers_ * sides_; }
  int all() const { return states_ - 1; }
  /// The units that are left without those of a team; -1 where there are fewer.
  int without(int units, int team) const;
  /// Every unit of the first is at most that of the second.
  bool at_most(int units, int others) const;
  /// `stages`: that may still be laid, where the box is of few; `mix`: one of them may be of two kinds.
  double time(Node node, int units, bool mix, int stages) const { return of(time_, node, units, mix, stages); }
  double price(Node node, int units, bool mix, int stages) const { return of(price_, node, units, mix, stages); }
  /// least_price() x time + least_time() x price: for bounds on time x price, which is at least this - least_time() x least_price().
  double blend(Node node, int units, bool mix, int stages) const { return of(blend_, node, units, mix, stages); }
  double least_time() const { return least_time_; }
  /// Steps of work that went into it: about as many nanoseconds.
  std::int64_t work() const { return work_; }
  double least_price() const { return least_price_; }
  /// Of plans of the box that cost at most `price` per hour.
  double least_time_below(double price) const;

 private:
  enum What : std::size_t { time_, price_, blend_ };
  struct Run {
    int start, length;
  };
  std::size_t spot(Node node, int units, bool mix, int stages) const {
    const int table = box_.depth == Depth::few ? stages - 1 : 0;
    return ((at(table) * ways_ + (mix && ways_ > 1 ? 1 : 0)) * at(nodes_) + at(node)) * at(states_) + at(units);
  }
  double of(What what, Node node, int units, bool mix, int stages) const {
    return tables_[what].empty() ? 0 : tables_[what][spot(node, units, mix, stages)];
  }
  bool few() const { return box_.depth == Depth::few; }
  bool twice() const { return box_.depth == Depth::many; }
  double price_of(const Move& m) const { return family_.teams()[at(m.team)].price; }
  double cost(What, const Move&) const;
  double value_of_blend(double blend) const;
  double most_blend(double target) const;
  void limit_maxima(double target);
  void collect_moves();
  bool may_hold(int first, int last) const;
  bool has_units(const Team&) const;
  void mark_alive(char as);
  void collect_mixed_moves();
  void add_looks(int first, int last, const char* alive);
  bool add_move(int first, int last, int look, double time, double reduction);
  double weighted(double time, double reduction, double share) const {
    return time + share * ((microbatches_ - 1) * std::max(time, box_.above) + std::max(reduction, box_.above_reduction));
  }
  void sort_moves();
  bool list(double target);
  bool glance(double target, bool only);
  bool filter(double target);
  bool charge(double target, bool for_all);
  double toll_of(const Look&, const Tolls&, bool for_all) const;
  double units(std::size_t resource, bool for_all) const { return for_all ? family_.all_units(resource) : family_.units(resource); }
  double charges(const Tolls&, bool for_all, std::vector<double>& costs) const;
  double step(const Sweep&, double by, bool for_all, Tolls&) const;
  std::vector<double> costs(What) const;
  void filter_by_price(double target);
  void keep(const Sweep&, const std::vector<double>& costs, double most);
  void list_teams();
  void number_states();
  void solve(What);
  bool find_step(What, Node&, int& units, bool& mix, int& stages, Path&) const;

  const Problem& p_;
  const Family& family_;
  const Box& box_;
  const Value& value_;
  int layers_, sides_, nodes_, microbatches_, most_stages_, states_ = 1;
  std::size_t ways_;         ///< without a stage of two kinds; with one
  std::vector<char> alone_;  ///< by kind: there are devices for a stage of it
  std::vector<int> behind_;  ///< by layer: stages that there must be behind it, at least; -1: none can be
  std::vector<Move> moves_;  ///< by last layer
  std::array<int, most_resources> strides_{};
  std::vector<int> offsets_;            ///< by team
  std::vector<std::vector<Run>> runs_;  ///< by team: states with enough units
  std::array<std::vector<double>, 3> tables_;
  std::vector<double> least_;           ///< by look, of the layers that are looked at
  std::vector<char> possible_, alive_;  ///< by kind; by layers (any kind) and kind: Glance::mark
  bool quick_ = false;                  ///< a glance was had at it
  double most_pace_ = never, most_reduction_ = never;
  double least_time_ = 0, least_price_ = 0, bound_ = never;
  std::int64_t work_ = 0;
};

}  // namespace flotilla::search::rules
