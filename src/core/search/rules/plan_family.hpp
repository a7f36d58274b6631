#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "measures.hpp"
#include "rings.hpp"

namespace flotilla::search::rules {

constexpr std::size_t most_resources = 6;
/// Of every resource; a unit is as many devices as a stage has replicas.
using Units = std::array<std::int16_t, most_resources>;

/// What the replicas of a stage are: all of one kind, or of two kinds of different groups.
struct StageGroup {
  int kind = 0, other = -1;
  int least = 0, most = 0;  ///< replicas of `kind`, where there is another
  Units units{};            ///< that it takes; of two kinds, beside the devices that whole units leave over
  double price = 0;         ///< per hour, at least
  int side = 0;             ///< the region; of two regions: one beyond the last
  bool mixed() const { return other >= 0; }
};

/// What a unit of each resource is charged, in seconds.
using Multipliers = std::array<double, most_resources>;

/// Teams of the same kinds.
struct StageType {
  std::vector<int> stage_groups{};  ///< the cheapest first
  int kind = 0, other = -1;         ///< of all of them
  int cheaper = 0;                  ///< of the two
  /// Looks of two kinds, one of them with the next smaller tensor degree of its group; -1: there is none.
  std::array<int, 2> smaller{-1, -1};
};

/// How closely a family stage types at devices.
enum class Grain {
  fine,   ///< group by group, as far as that goes
  plain,  ///< the same, but no stage is of several kinds: its bounds are none of all plans
  coarse  ///< all together, weighted by speed; kinds stand for stages of several kinds too
};

/// Plans of one microbatch size and one number of replicas, and what a stage of them takes at least. A resource is the devices of a group;
/// of several, weighted by their speed at some pace, where there are many: then bounds are looser; or as many as the limit allows.
class PlanFamily {
 public:
  struct FamilyChoice {
    int replicas = 1, microbatches = 1;
    double pace = 0;  ///< at which speeds are compared
    /// Every stage has replicas in several regions: its ring crosses them, and stages need not send between regions. Otherwise a stage is
    /// in one region, or it is the one stage of two kinds.
    bool across = false;
    Grain grain = Grain::fine;
  };
  PlanFamily(const FormulaProblem&, const Measures&, const Rings&, const FamilyChoice&);

  const Measures& measures() const { return *measures_; }
  int replicas() const { return replicas_; }
  bool across() const { return choice_.across; }
  int microbatches() const { return choice_.microbatches; }
  const std::vector<StageGroup>& stage_groups() const { return stage_groups_; }
  /// Those of one kind first.
  const std::vector<StageType>& stage_types() const { return stage_types_; }
  const StageGroup& front(int stage_type) const { return stage_groups_[at(stage_types_[at(stage_type)].stage_groups.front())]; }
  bool mixes() const { return !stage_groups_.empty() && stage_groups_.back().mixed(); }
  int kinds() const { return kinds_; }
  /// A stage of several kinds takes no less than a stage of that of them that needs the least of the resource, which stands for it: in
  /// tiny pools and by coarse grain.
  bool stands_for_others() const { return p_->tiny || choice_.grain == Grain::coarse; }
  /// Per hour, of a stage of a kind; where it stands for others, of the cheapest type.
  double price(int kind) const;
  std::size_t resources() const { return resources_.size(); }
  int units(std::size_t resource) const { return resources_[resource].units; }
  /// The same with the devices that whole units leave over.
  double all_units(std::size_t resource) const {
    return resources_[resource].units + static_cast<double>(resources_[resource].relaxation) / replicas_;
  }
  /// For the units that a team takes.
  double multiplier_cost(const StageGroup&, const Multipliers&) const;
  /// The least of a look's teams for what they take of all_units().
  double least_multiplier_cost(const StageType&, const Multipliers&) const;
  /// Those that last served for nodes of a depth: where to begin.
  Multipliers& last_multipliers(int depth) const { return last_multipliers_[at(depth)]; }

  /// Where neighbours may stand: regions, and beyond them that of stages in two.
  int sides() const { return choice_.across || p_->regions == 1 ? 1 : p_->regions + 1; }
  /// What `layer` puts out, from the slowest replica of a team to a neighbour on a side.
  double sending(const StageGroup&, int side, int layer) const;
  /// What a stage on `side` gets beside its least when it sends to a team in front of it, whose last layer is before `layer`.
  double sending_more(int side, const StageGroup& t, int layer) const {
    return side == t.side ? 0 : measures_->more_between(side, t.side, layer);
  }
  /// Measures::time, compute and fits of a team.
  double time(const StageGroup& t, int first, int last, bool deep) const {
    const double one = measures_->time(t.kind, first, last, deep);
    return t.mixed() ? std::max(one, measures_->time(t.other, first, last, deep)) : one;
  }
  double compute(const StageGroup& t, int first, int last) const {
    const double one = measures_->compute(t.kind, first, last);
    return t.mixed() ? std::max(one, measures_->compute(t.other, first, last)) : one;
  }
  bool fits(const StageGroup& t, int first, int last, int from_end) const {
    return measures_->fits(t.kind, first, last, from_end) && (!t.mixed() || measures_->fits(t.other, first, last, from_end));
  }
  /// Of the gradients, over the fastest ring that the pool allows.
  double reduction(const StageGroup& t, int first, int last) const { return reduction(t, weights_->number(first, last)); }
  /// Of a stage that has replicas of a kind, and maybe others.
  double least_reduction(int kind, int first, int last) const {
    const int weights = weights_->number(first, last);
    double& known = least_reductions_[at(kind) * weights_->bytes.size() + at(weights)];
    if (known < 0) known = find_least_reduction(kind, weights);
    return known;
  }
  /// Share of the layers' work: over the stages of a plan they sum to 1.
  double share(int first, int last) const {
    const double all = measures_->least_compute(layers_);
    return all > 0 ? (measures_->least_compute(last) - measures_->least_compute(first)) / all : static_cast<double>(last - first) / layers_;
  }
  /// Number of the kinds of a team, the same for all teams of these kinds.
  int stage_type(const StageGroup& t) const { return t.mixed() ? kinds_ * (t.kind + 1) + t.other : t.kind; }

 private:
  bool may_mix(const ReplicaKind&, const ReplicaKind&) const;
  double into(int kind, int side, int layer) const;
  struct Resource {
    std::vector<int> groups{};      ///< none: all, for the limit
    std::vector<int> weights{};     ///< of a device, by group of the pool; 0: another resource
    std::int64_t devices = 0;       ///< weighted
    int units = 0, relaxation = 0;  ///< whole units, and what is left over
    int scale = 1;                  ///< units that are counted as one, where there are many
  };
  int need(const Resource&, int kind) const;
  void add_resources();
  void put_together(Resource&, int scale) const;
  void merge_resources();
  std::int64_t count_units();
  const Resource& resource_of(int group) const;
  StageGroup mixed_stage_group(int kind, int other, int count) const;
  void add_stage_groups();
  void add_mixed(int kind, int other);
  double reduction(const StageGroup& t, int weights) const {
    double& known = reductions_[at(rings_of_[at(stage_type(t))]) * weights_->bytes.size() + at(weights)];
    if (known < 0) known = find_reduction(t, weights);
    return known;
  }
  double find_reduction(const StageGroup&, int weights) const;
  double find_least_reduction(int kind, int weights) const;
  void number_rings();
  void list_stage_types();
  bool same_group(int kind, int other) const { return p_->kinds[at(kind)].group == p_->kinds[at(other)].group; }

  const FormulaProblem* p_;
  const Measures* measures_;
  const Weights* weights_;
  const Rings& rings_;
  FamilyChoice choice_;
  int replicas_, layers_, kinds_;
  std::vector<Resource> resources_;
  std::vector<StageGroup> stage_groups_;
  std::vector<StageType> stage_types_;
  mutable std::vector<double> least_reductions_;        ///< by kind and weights; negative: not worked out yet
  std::vector<int> rings_of_;                           ///< by look: stage types of one number have the same rings
  std::vector<std::vector<int>> stage_groups_of_ring_;  ///< by kind: a team of every number
  mutable std::vector<double> reductions_;              ///< by look and weights; negative: not worked out yet
  mutable std::array<Multipliers, 3> last_multipliers_{};
};

}  // namespace flotilla::search::rules
