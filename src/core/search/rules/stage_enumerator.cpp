#include "stage_enumerator.hpp"

#include <algorithm>

namespace flotilla::search::rules {
StageShape shape_of(const PlanFamily& family, const RelaxedPath& path, double bound) {
  StageShape shape{&family.measures(), family.replicas(), bound, family.across(), {}};
  for (const PathStage& step : path.steps) {
    const StageGroup& stage_group = family.stage_groups()[at(step.stage_group)];
    shape.stages.push_back({step.first, step.last, stage_group.kind, stage_group.other, stage_group.least, stage_group.most});
  }
  return shape;
}

StageEnumerator::StageEnumerator(const FormulaProblem& p, const PlanFamily& family, const BranchNode& branch_node,
                                 const ObjectiveBound& value, const DpRelaxation& relaxation, std::int64_t most_work)
    : p_{p},
      family_{family},
      branch_node_{branch_node},
      value_{value},
      rest_{relaxation},
      measures_{family.measures()},
      most_work_{most_work} {
  StageLabel root;
  root.units = relaxation.all();
  root.first_layer = static_cast<std::int16_t>(p.tables.layers());
  labels_.push_back(root);
  queue_.push({bound(root), 0, 0});
}

std::optional<StageShape> StageEnumerator::next(const std::function<bool()>& stop) {
  for (std::int64_t steps = 0; !queue_.empty() && queue_.top().bound < most_; ++steps) {
    if (work_ > most_work_ || labels_.size() > tuning::rules_labels || (stop && steps % 64 == 0 && stop())) return std::nullopt;
    const OpenLabel top = queue_.top();
    queue_.pop();
    if (labels_[at(top.label)].dead) continue;
    if (labels_[at(top.label)].first_layer == 0) return finished(top.label, top.bound);
    expand(top.label);
  }
  return std::nullopt;
}

StageShape StageEnumerator::finished(int label, double bound) const {
  RelaxedPath path;
  for (int i = label; labels_[at(i)].stage_group >= 0; i = labels_[at(i)].parent)
    path.steps.push_back({labels_[at(i)].first_layer, labels_[at(labels_[at(i)].parent)].first_layer, labels_[at(i)].stage_group});
  return shape_of(family_, path, bound);
}

/// Whether the node allows a stage of these layers in front.
bool StageEnumerator::may_hold(const StageLabel& from, int first) const {
  if (!p_.may_hold(first, from.first_layer) || !p_.may_end(from.stages + 1, first == 0)) return false;
  const int blocks = p_.blocks(first, from.first_layer);
  if (branch_node_.blocks >= 0 && (blocks < branch_node_.blocks || blocks > branch_node_.blocks + 1)) return false;
  switch (branch_node_.depth) {
    case Depth::few: return first == 0 || from.stages < 2;
    case Depth::many: return first > 0 || from.stages >= 3;
    case Depth::any: break;
  }
  return true;
}

void StageEnumerator::expand(int label) {
  const StageLabel from = labels_[at(label)];
  std::vector<bool> over(family_.stage_groups().size());
  for (std::size_t t = 0; t < over.size(); ++t)
    over[t] = (family_.stage_groups()[t].mixed() && from.mixed) || rest_.without(from.units, static_cast<int>(t)) < 0;
  for (int first = from.first_layer - 1; first >= 0; --first) {
    const bool may = may_hold(from, first);
    for (std::size_t t = 0; t < over.size(); ++t) {
      const StageGroup& stage_group = family_.stage_groups()[t];
      if (over[t]) continue;
      over[t] = family_.compute(stage_group, first, from.first_layer) > branch_node_.pace ||
                !family_.fits(stage_group, first, from.first_layer, from.stages + 1);
      if (!over[t] && may) add_stage(label, first, static_cast<int>(t));
    }
  }
}

/// Least time from the slowest replica of the one team to its neighbour in the other, of what `layer` puts out. Each replica has some
/// neighbour in the other stage; in tiny pools the kinds stand for others too.
double StageEnumerator::sending(const StageGroup& from, const StageGroup& to, int layer) const {
  if (p_.tiny) return measures_.least_link(from.kind, layer);
  const auto link = [&](int kind, int other) { return measures_.link(kind, other, layer); };
  if (!from.mixed() && !to.mixed()) return link(from.kind, to.kind);
  const auto nearest = [&](int kind) { return to.mixed() ? std::min(link(kind, to.kind), link(kind, to.other)) : link(kind, to.kind); };
  const auto nearest_to = [&](int other) {
    return from.mixed() ? std::min(link(from.kind, other), link(from.other, other)) : link(from.kind, other);
  };
  double most = std::max(nearest(from.kind), nearest_to(to.kind));
  if (from.mixed()) most = std::max(most, nearest(from.other));
  if (to.mixed()) most = std::max(most, nearest_to(to.other));
  return most;
}

void StageEnumerator::add_stage(int parent, int first, int number) {
  work_ += tuning::rules_steps_of_a_label;
  const StageLabel& from = labels_[at(parent)];
  const int last = from.first_layer;
  const StageGroup& stage_group = family_.stage_groups()[at(number)];
  StageLabel l = from;
  l.units = rest_.without(from.units, number);
  l.parent = parent;
  l.stage_group = number;
  l.first_layer = static_cast<std::int16_t>(first);
  l.stages = static_cast<std::int16_t>(from.stages + 1);
  l.mixed = from.mixed || stage_group.mixed();
  l.open = family_.compute(stage_group, first, last);
  if (from.stages > 0) {
    const StageGroup& behind = family_.stage_groups()[at(from.stage_group)];
    const double up = sending(stage_group, behind, last - 1), down = sending(behind, stage_group, last);
    const double closed = from.open + (from.stages == 1 ? 2 : 1) * down;
    l.pace = std::max(from.pace, closed);
    l.sum = from.sum + closed;
    l.open += (first == 0 && l.stages > 3 ? 2 : 1) * up;
  }
  if (first == 0) {
    l.pace = std::max(l.pace, l.open);
    l.sum += l.open;
    l.open = 0;
  }
  l.reduction = std::max(from.reduction, family_.reduction(stage_group, first, last));
  if (l.pace > branch_node_.pace || l.open > branch_node_.pace || l.reduction > branch_node_.reduction) return void(++pruned_);
  l.update = std::max(from.update, measures_.update(stage_group.kind, first));
  if (stage_group.mixed() && !p_.tiny) l.update = std::max(l.update, measures_.update(stage_group.other, first));
  l.price = from.price + stage_group.price;
  if (l.price > branch_node_.price) return void(++pruned_);
  const double least = bound(l);
  if (least >= most_ || (!p_.tiny && dominated(l))) return void(++pruned_);
  labels_.push_back(l);
  queue_.push({least, l.stages, static_cast<int>(labels_.size()) - 1});
}

/// Of the objective's value over all ways to go on from here.
double StageEnumerator::bound(const StageLabel& l) const {
  const double update = std::max(l.update, measures_.least_update());
  if (l.first_layer == 0) {
    const double time = (family_.microbatches() - 1) * std::max(l.pace, branch_node_.above) + l.sum + update +
                        std::max(l.reduction, branch_node_.above_reduction);
    return value_.least(std::max(time, branch_node_.above_time), std::max(l.price, branch_node_.above_price), 0);
  }
  const int stages = 3 - l.stages;
  const StageGroup* front = l.stages > 0 ? &family_.stage_groups()[at(l.stage_group)] : nullptr;
  const DpState node = rest_.node(l.first_layer, front ? front->side : 0);
  const double relaxation = rest_.time(node, l.units, !l.mixed, stages);
  if (relaxation == never) return never;
  double open = l.open;
  if (front) {
    const StageGroup& stage_group = *front;
    double down = measures_.least_link(stage_group.kind, l.first_layer);
    if (stage_group.mixed()) down = std::max(down, measures_.least_link(stage_group.other, l.first_layer));
    open += (l.stages == 1 ? 2 : 1) * down;
  }
  const double share = 1 - family_.share(0, l.first_layer);
  const double time = l.sum + open +
                      share * ((family_.microbatches() - 1) * std::max({branch_node_.above, l.pace, open}) +
                               std::max(branch_node_.above_reduction, l.reduction)) +
                      update;
  if (!value_.needs_prices()) return value_.least(time + relaxation, 0, 0);
  const double price = std::max(l.price + rest_.price(node, l.units, !l.mixed, stages), branch_node_.above_price);
  if (price > branch_node_.price) return never;
  const double product = rest_.least_price() * time + rest_.least_time() * l.price + rest_.blend(node, l.units, !l.mixed, stages) -
                         rest_.least_time() * rest_.least_price();
  return value_.least(std::max(time + relaxation, branch_node_.above_time), price, product);
}

bool StageEnumerator::dominates(const StageLabel& x, const StageLabel& y) const {
  const bool fixed = p_.request.constraints.pipeline.has_value();
  if (fixed ? x.stages != y.stages : x.stages > y.stages) return false;
  if ((x.mixed && !y.mixed) || x.price > y.price || !rest_.at_most(y.units, x.units)) return false;
  const double x_pace = std::max(x.pace, branch_node_.above), y_pace = std::max(y.pace, branch_node_.above);
  const double later = (family_.microbatches() - 1) * std::max({0.0, x_pace - y_pace, x.open - y.open}) + x.sum + x.open - y.sum - y.open +
                       std::max(0.0, x.update - std::max(y.update, measures_.least_update())) +
                       std::max(0.0, x.reduction - std::max(y.reduction, branch_node_.above_reduction));
  return later <= 0;
}

/// Whether an earlier partial plan with the same layers left and the same first stage is as good in everything; enters this one if not.
bool StageEnumerator::dominated(const StageLabel& l) {
  const std::uint64_t key = static_cast<std::uint64_t>(family_.stage_type(family_.stage_groups()[at(l.stage_group)])) << 32 |
                            static_cast<std::uint64_t>(l.first_layer) << 1 | static_cast<std::uint64_t>(l.stages == 1);
  auto& alike = alike_[key];
  work_ += static_cast<std::int64_t>(alike.size()) * tuning::rules_steps_of_a_comparison;
  for (const int other : alike)
    if (dominates(labels_[at(other)], l)) return true;
  std::erase_if(alike, [&](int other) {
    const bool worse = dominates(l, labels_[at(other)]);
    if (worse) labels_[at(other)].dead = true;
    return worse;
  });
  alike.push_back(static_cast<int>(labels_.size()));
  return false;
}

}  // namespace flotilla::search::rules
