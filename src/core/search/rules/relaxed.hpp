#pragma once
#include <cstdint>
#include <map>
#include <queue>
#include <unordered_map>
#include <vector>

#include "measures.hpp"

namespace flotilla::search::rules {

/// A stage of the relaxed search: layers, and the kinds that its replicas may be, one of a group at most. One kind: all replicas are it.
struct RelaxedStage {
  int first_layer = 0, last_layer = 0;
  std::vector<int> kinds;
  int entry = -1;  ///< of the pool, where all replicas stand; -1: not said
};
/// A plan without zones, with replicas not yet counted out.
struct RelaxedPlan {
  const Measures* measures = nullptr;
  int replicas = 0;
  double bound = 0;  ///< of the objective's value: no plan of this shape is below it
  std::vector<RelaxedStage> stages;
};

struct RelaxedOptions {
  bool drop_dominated = true;  ///< of partial plans that differ in what they hold and cost, not in what is left to lay
  bool mix_types = true;       ///< stages of several types; without them the bounds hold for plans without such stages only
  std::int64_t most_partial_plans = 0;
};

/// Enumerates relaxed plans in the order of their bounds: stages are laid from the last one on (what a stage holds in memory depends on how
/// many stand behind it), the partial plan with the least bound first. Zones are put together, and a stage of several types takes a
/// share of each as it likes, so that every plan of the space is some relaxed plan, and no better than its bound.
class RelaxedSearch {
 public:
  RelaxedSearch(const Problem&, const Links&, const std::vector<Measures>&, RelaxedOptions);

  /// Excludes what cannot be below `value`, from here on.
  void must_beat(double value) { most_ = value; }
  /// The next relaxed plan; nothing when none is left below must_beat(), when `stop` says so, or when the room is used up.
  std::optional<RelaxedPlan> next(const std::function<bool()>& stop);
  /// Lays stages from the most promising microbatch size and number of replicas, with the `width` best partial plans for every first stage:
  /// the best plans that come of it, at most `width`. For good plans early: a search that
  /// dived has forgotten what it laid, and next() must not be asked.
  std::vector<RelaxedPlan> dive(int width);
  bool can_dive() const { return dived_ < starts_.size() && starts_[dived_].bound < most_; }
  /// No relaxed plan that is still to come is below this.
  double least_open() const { return queue_.empty() ? never : queue_.top().bound; }
  bool cut_short() const { return cut_short_; }
  std::int64_t laid() const { return static_cast<std::int64_t>(labels_.size()); }
  std::int64_t pruned() const { return pruned_; }

 private:
  struct Root {
    int measures, replicas, microbatches;
    std::vector<double> reductions;  ///< by kind, first and last layer; negative: not computed yet
  };
  struct Label {
    int parent, root;
    std::int16_t first_layer, stages;
    std::int16_t least_blocks, most_blocks;  ///< of a stage; 0 unless cuts must be even
    std::int32_t team, mixed;                ///< mixed: list of mixed teams, or -1
    std::int32_t column;  ///< devices that one pipeline takes of the spread stages from the open one on that stand zone by zone alike
    double pace, sum, open, update, reduction, price, egress;
    bool dead;  ///< a later one is as good in everything
  };
  struct Open {
    double bound;
    int devices, label;
    bool operator<(const Open& o) const {
      return bound != o.bound ? bound > o.bound : devices != o.devices ? devices > o.devices : label > o.label;
    }
  };
  struct Choice {
    int team;
    double compute;
  };
  /// What a stage's replicas may be. One kind in one entry; one kind in several entries (spread); one kind anywhere, where places are not
  /// told apart; or several kinds.
  struct Team {
    std::vector<int> kinds;
    int place = anywhere;  ///< of Links::places
    bool mixed() const { return kinds.size() > 1; }
    bool placed() const { return place >= 0; }
    bool is_spread() const { return place == spread; }
  };
  static constexpr int anywhere = -1, spread = -2;
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  const int* used(int label) const { return used_.data() + at(label) * resources_; }

  void add_roots();
  void forget();
  void expand(int label);
  void choices(const Measures&, int first, int last, int from_end);
  void together_at_one_degree(const std::vector<std::pair<double, int>>& kinds);
  bool keeps_restrictions(const Label& from, int first, int last, Label&) const;
  void lay(int parent, int first, int last, const Choice&, bool apart);
  void add_teams();
  void lay_next_to(const Label& from, const Choice&, int first, int last, bool apart, Label&) const;
  double egress_between(const Label& from, int team, int last, bool apart) const;
  double egress_in(const Label&, int team, int first, int last) const;
  double spread_reduction(const Root&, const Kind&, int column, double bytes) const;
  double placed_reduction(const Root&, const Team&, double bytes) const;
  bool take(const Label& parent, int parent_index, int team, Label&);
  bool room_for_mixed(const Label&) const;
  double bound(const Label&, const Root&) const;
  bool capacity(const Label&, const Root&, double work, int j) const;
  int least_pace(const Label&, const Root&, double work, int from) const;
  double reduction(Root&, int team, int column, int first, int last);
  double reduction_time(const Root&, const Fits&, double bytes, int rank) const;
  double sending(const Measures&, int team, int other, int layer, bool apart) const;
  bool dominated(const Label&);
  bool dominates(const Label& x, const int* x_used, const Label& y, const int* y_used) const;
  int intern(const std::vector<int>& kinds);
  RelaxedPlan plan_of(int label, double bound) const;
  int devices(int label) const;

  const Problem& p_;
  const Links& links_;
  const std::vector<Measures>& measures_;
  RelaxedOptions options_;
  std::size_t groups_;
  double most_ = never;
  std::vector<Team> teams_;                 ///< the first ones are of single kinds
  std::vector<std::vector<int>> teams_of_;  ///< by kind
  std::size_t singles_ = 0;
  std::size_t resources_;        ///< groups, then entries
  double least_egress_ = never;  ///< USD for a byte between zones
  std::map<std::vector<int>, int> team_numbers_;
  std::vector<std::vector<int>> mixed_lists_;  ///< teams, sorted
  std::map<std::vector<int>, int> mixed_numbers_;
  std::vector<Root> roots_;
  std::vector<Label> labels_;
  std::vector<int> used_, new_used_;
  std::vector<Choice> choices_;
  std::vector<Open> starts_;  ///< nothing laid yet, the least bound first
  std::size_t dived_ = 0;
  std::priority_queue<Open> queue_;
  std::unordered_map<std::uint64_t, std::vector<int>> alike_;
  std::int64_t pruned_ = 0;
  bool cut_short_ = false;
};

}  // namespace flotilla::search::rules
