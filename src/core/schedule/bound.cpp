#include "flotilla/schedule/bound.hpp"

#include <algorithm>

namespace flotilla::schedule {
namespace {

PassTimes least(const PassTimes& a, const PassTimes& b) {
  return {std::min(a.forward, b.forward), std::min(a.backward, b.backward), std::min(a.recompute, b.recompute),
          std::min(a.weights, b.weights)};
}

class ColumnBound {
 public:
  ColumnBound(const Schedule& schedule, const ColumnTimes& column) : schedule_{schedule}, column_{column} {}

  PipelineBound run() const { return {last_backward(), last_sum()}; }

 private:
  // What is computed again may hide in the wait for the gradient, so chains through stages hold the backward pass alone.
  static PassTimes pass(const StageTimes& stage) { return least(stage.full, stage.last); }
  static Seconds there(const StageTimes& stage) { return std::min(stage.there_full, stage.there_last); }
  static Seconds back(const StageTimes& stage) { return std::min(stage.back_full, stage.back_last); }

  int count() const { return static_cast<int>(column_.stages.size()); }
  const StageTimes& stage(int s) const { return column_.stages[static_cast<std::size_t>(s)]; }
  Position position(int s) const { return {count(), s, column_.microbatches}; }
  int weights_before(int s) const { return weights_before_last_input(schedule_, position(s)); }

  /// What a device does until its last backward pass has let go of its gradient.
  Seconds total(int s) const {
    const auto sum = [](const PassTimes& t) { return t.forward + t.backward + t.recompute; };
    return sum(stage(s).full) * (column_.microbatches - 1) + sum(stage(s).last) + weights_before(s) * stage(s).full.weights;
  }
  /// The same of all stages of the device: its last backward pass is that of the first of them.
  Seconds total_of_device(int first) const {
    Seconds sum;
    for (int s = first; s < count(); s += count() / column_.chunks) sum += total(s);
    return sum;
  }
  /// And until its last weight-gradient half.
  Seconds total_with_weights(int s) const {
    return total(s) + (column_.microbatches - 1 - weights_before(s)) * stage(s).full.weights + stage(s).last.weights;
  }

  /// A microbatch's way from the stage to the last one and back, of a full one or the smaller one.
  Seconds round_trip(int s, bool full) const {
    Seconds sum;
    for (int i = s; i < count(); ++i) {
      const PassTimes times = full ? stage(i).full : pass(stage(i));
      sum += times.forward + times.backward + (full ? stage(i).there_full + stage(i).back_full : there(stage(i)) + back(stage(i)));
    }
    return sum;
  }

  Seconds last_backward() const {
    Seconds most, around;  // around: fill before the stage and drain after it
    for (int s = 0; s < count(); ++s) {
      const Seconds way = round_trip(s, false);
      most = std::max({most, around + total_of_device(s), around + until_messages_passed(s, way),
                       around + turnarounds(schedule_, position(s)) * round_trip(s, true) + way});
      around += pass(stage(s)).forward + pass(stage(s)).backward + there(stage(s)) + back(stage(s));
    }
    return most;
  }

  /// Messages of a pair of ranks follow one another; the first waits for a microbatch's way up to it, the last has the rest before it.
  /// Where all microbatches are in flight at once in the next stage, all activations pass before its first gradient comes back, if it has
  /// a forward pass of its own to finish (the head alone has none).
  Seconds until_messages_passed(int s, Seconds way) const {
    const StageTimes& step = stage(s);
    const int behind = column_.microbatches - 1;
    const Seconds forward = behind * step.there_full, backward = behind * step.back_full;
    const Seconds either = way + std::max(forward, backward);
    if (s + 1 == count() || schedule_.in_flight(position(s + 1)).least < column_.microbatches) return either;
    const PassTimes here = pass(step), next = pass(stage(s + 1));
    if (!(next.forward.value > 0)) return either;
    const Seconds passes = here.forward + here.backward + next.forward + next.backward;
    return std::max(either, passes + forward + there(step) + backward + back(step));
  }

  /// Gradients are summed when the last microbatch's backward pass has left their layer.
  Seconds last_sum() const {
    Seconds most, fill;
    for (int s = 0; s < count(); ++s) {
      const StageTimes& step = stage(s);
      most = std::max({most, fill + total(s) - step.last.backward - step.last.recompute + step.sums, fill + total_with_weights(s)});
      fill += pass(step).forward + there(step);
    }
    return most;
  }

  const Schedule& schedule_;
  const ColumnTimes& column_;
};

}  // namespace

PassTimes split(const PassTimes& whole, Seconds input, Seconds weights) {
  const Seconds waited_for = std::min(input, whole.backward);
  return {whole.forward, waited_for, whole.recompute, std::min(weights, whole.backward - waited_for)};
}

int weights_before_last_input(const Schedule& schedule, const Position& position) {
  if (!schedule.splits(position.index)) return 0;
  return std::max(0, position.microbatches - 1 - schedule.most_deferred(position.index));
}

int turnarounds(const Schedule& schedule, const Position& position) {
  return std::max(0, position.microbatches - 1) / schedule.in_flight(position).most;
}

PipelineBound bound(const Schedule& schedule, const ColumnTimes& column) { return ColumnBound{schedule, column}.run(); }

}  // namespace flotilla::schedule
