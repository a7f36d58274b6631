#include <algorithm>

#include "bounds.hpp"
#include "flotilla/plan/dealing.hpp"

// A lower bound of the iteration time without lowering the plan. Replica r of every stage form a column, along which microbatches travel;
// each bound below is a chain of things that must happen one after the other in a column.
namespace flotilla::simulate {
namespace {

LayerBound operator+(const LayerBound& a, const LayerBound& b) {
  return {a.forward + b.forward, a.backward + b.backward, a.recompute + b.recompute, a.input_half + b.input_half,
          a.weights_half + b.weights_half};
}
LayerBound operator*(const LayerBound& a, double n) {
  return {a.forward * n, a.backward * n, a.recompute * n, a.input_half * n, a.weights_half * n};
}
LayerBound least(const LayerBound& a, const LayerBound& b) {
  return {std::min(a.forward, b.forward), std::min(a.backward, b.backward), std::min(a.recompute, b.recompute),
          std::min(a.input_half, b.input_half), std::min(a.weights_half, b.weights_half)};
}

/// What others wait for of a backward pass stands as the backward pass, what nobody waits for apart from it.
LayerBound as_run(LayerBound bound, bool splits) {
  if (!splits) bound.weights_half = {};
  if (!splits) return bound;
  // Halves may have been measured as more than the whole; the whole counts then, as in the planner's sketches (search/cuts).
  const Seconds input = std::min(bound.input_half, bound.backward);
  bound.weights_half = std::min(bound.weights_half, bound.backward - input);
  bound.backward = input;
  return bound;
}

/// One stage's part of a column. `full` and `last`: a full microbatch and the step's last.
struct Step {
  LayerBound full, last;
  Seconds forward_full, forward_last, backward_full, backward_last;  // messages to and from the next stage; 0 after the last stage
  Seconds gradient_sums;                                             // over the replicas, without the word table's
  int weights_before = 0;  // halves of backward passes that are made before the last input's half, at least

  // What is recomputed may hide in the wait for the gradient, so the chains hold the backward pass alone.
  LayerBound pass() const { return least(full, last); }
  Seconds there() const { return std::min(forward_full, forward_last); }
  Seconds back() const { return std::min(backward_full, backward_last); }
};

struct Column {
  std::vector<Step> steps;
  int microbatches = 0;
};

class PlanBound {
 public:
  PlanBound(const BoundedForecaster& forecaster, ElementTables& tables, const plan::Plan& plan)
      : forecaster_{forecaster}, tables_{tables}, plan_{plan} {
    for (int s = 0; s + 1 < static_cast<int>(plan.stages.size()) && plan.schedule == plan::ScheduleKind::zero_bubble; ++s)
      dealt_alike_ = dealt_alike_ && plan::dealt_alike(plan, s, s + 1);
  }

  Seconds run() const {
    const Seconds update = slowest_optimizer(), word = word_sum();
    std::vector<Seconds> sums;
    for (const plan::Stage& stage : plan_.stages) sums.push_back(gradient_sums(stage));
    Seconds bound;
    const std::size_t columns = plan_.stages.front().replicas.size();
    for (std::size_t r = 0; r < columns; ++r) {
      if (r > 0 && alike(r, r - 1)) continue;
      const Column column = column_of(r, sums);
      bound = std::max({bound, until_last_backward(column) + word + update, until_last_sum(column) + update});
    }
    // Additions here and in the machine are in different orders; a part in 10^12 keeps rounding on the safe side.
    return bound * (1 - 1e-12);
  }

 private:
  bool has_columns() const {
    return std::ranges::all_of(plan_.stages,
                               [&](const plan::Stage& s) { return s.replicas.size() == plan_.stages.front().replicas.size(); });
  }

  /// Whether a column's bound is that of another, which need not be computed twice. Sure of it only without groups and messages.
  bool alike(std::size_t r, std::size_t other) const {
    const auto &a = plan_.stages.front().replicas[r], &b = plan_.stages.front().replicas[other];
    return plan_.stages.size() == 1 && a.tensor_parallel == 1 && b.tensor_parallel == 1 && a.device_type == b.device_type &&
           a.sequences == b.sequences && a.quanta == b.quanta;
  }

  model::LayerShape shape(const plan::Replica& replica, int sequences) const {
    const bool shares = plan_.sequence_parallel && replica.tensor_parallel > 1;
    return {sequences, plan_.length, replica.tensor_parallel, 0, plan_.precision, shares};
  }

  LayerBound pass(const plan::Stage& stage, const plan::Replica& replica, int sequences) const {
    const auto& model = plan_.model;
    const auto bound_of = [&](int layer) {
      return forecaster_.layer_bound(model, layer, shape(replica, sequences), stage.recompute, replica.device_type, replica.devices);
    };
    const int first_block = std::max(stage.first_layer, 1), blocks = std::min(stage.last_layer, model.layers() - 1) - first_block;
    LayerBound sum;
    if (stage.first_layer == 0) sum = sum + bound_of(0);
    if (blocks > 0) sum = sum + bound_of(first_block) * blocks;  // blocks are alike
    if (stage.last_layer == model.layers()) sum = sum + bound_of(model.layers() - 1);
    return sum;
  }

  Column column_of(std::size_t r, const std::vector<Seconds>& sums) const {
    Column column;
    const bool columns = has_columns();
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      const auto& stage = plan_.stages[s];
      const auto& replica = stage.replicas[std::min(r, stage.replicas.size() - 1)];
      const int full = std::min(replica.sequences, replica.quanta * plan_.quantum);
      const int count = replica.microbatches(plan_.quantum), last = replica.sequences - (count - 1) * full;
      Step step;
      const bool splits = plan_.schedule == plan::ScheduleKind::zero_bubble && s > 0;
      step.full = as_run(pass(stage, replica, full), splits);
      step.last = last == full ? step.full : as_run(pass(stage, replica, last), splits);
      // Stage s of columns defers as many as there are stages before it, or fewer (program/zero_bubble.hpp).
      if (splits && dealt_alike_) step.weights_before = std::max(0, count - 1 - static_cast<int>(s));
      step.gradient_sums = sums[s];
      if (columns && s + 1 < plan_.stages.size() && plan::own_stages(plan_) > 1) {
        const auto& next = plan_.stages[s + 1].replicas[r].devices;
        const auto message = [&](const auto& from, const auto& to, int n) {
          model::LayerShape sent = shape(replica, n);
          sent.sequence_parallel = plan_.sequence_parallel;  // of either end
          return forecaster_.message_bound(plan_.model, sent, from, to);
        };
        step.forward_full = message(replica.devices, next, full);
        step.forward_last = message(replica.devices, next, last);
        step.backward_full = message(next, replica.devices, full);
        step.backward_last = message(next, replica.devices, last);
      }
      column.microbatches = count;
      column.steps.push_back(step);
    }
    return column;
  }

  /// What a stage's compute queue does until its last backward pass has let go of its gradient.
  static Seconds total(const Column& c, const Step& step) {
    const LayerBound sum = step.full * (c.microbatches - 1) + step.last;
    return sum.forward + sum.backward + sum.recompute + step.weights_before * step.full.weights_half;
  }
  /// And until its last gradient of weights is there, where these are made apart.
  static Seconds total_with_weights(const Column& c, const Step& step) {
    return total(c, step) + (c.microbatches - 1 - step.weights_before) * step.full.weights_half + step.last.weights_half;
  }

  /// A microbatch's way from stage s to the last one and back, of a full one or the smaller one.
  static Seconds round_trip(const Column& c, std::size_t s, bool full) {
    Seconds sum;
    for (std::size_t i = s; i < c.steps.size(); ++i) {
      const Step& step = c.steps[i];
      const LayerBound pass = full ? step.full : step.pass();
      sum += pass.forward + pass.backward + (full ? step.forward_full + step.backward_full : step.there() + step.back());
    }
    return sum;
  }

  Seconds until_last_backward(const Column& c) const {
    Seconds most, around;  // around: fill before the stage and drain after it
    const int n = c.microbatches;
    const auto stages = static_cast<int>(c.steps.size());
    for (int s = 0; s < stages; ++s) {
      const Step& step = c.steps[static_cast<std::size_t>(s)];
      most = std::max(most, around + total(c, step));
      const Seconds way = round_trip(c, static_cast<std::size_t>(s), false);
      const bool eager = plan_.schedule != plan::ScheduleKind::gpipe && plan_.chunks == 1;
      if (eager) {
        // The backward pass of microbatch m stands before the forward pass of m + k, k = stages - s, on the same queue.
        const int turns = (n - 1) / (stages - s);
        most = std::max(most, around + turns * round_trip(c, static_cast<std::size_t>(s), true) + way);
      }
      most = std::max(most, around + until_messages_passed(c, static_cast<std::size_t>(s), way));
      around += step.pass().forward + step.pass().backward + step.there() + step.back();
    }
    return most;
  }

  /// Messages of a pair of ranks follow one another; the first waits for a microbatch's way up to it, the last has the rest before it. In
  /// GPipe all activations pass before the next stage sends its first gradient, where it has a forward pass of its own to finish (the head
  /// alone has none).
  Seconds until_messages_passed(const Column& c, std::size_t s, Seconds way) const {
    const Step& step = c.steps[s];
    const Seconds there = (c.microbatches - 1) * step.forward_full, back = (c.microbatches - 1) * step.backward_full;
    const Seconds either = way + std::max(there, back);
    if (plan_.schedule != plan::ScheduleKind::gpipe || s + 1 == c.steps.size()) return either;
    const LayerBound here = step.pass(), next = c.steps[s + 1].pass();
    if (!(next.forward.value > 0)) return either;
    const Seconds passes = here.forward + here.backward + next.forward + next.backward;
    return std::max(either, passes + there + step.there() + back + step.back());
  }

  /// Gradients are summed when the last microbatch's backward pass has left their layer.
  static Seconds until_last_sum(const Column& c) {
    Seconds most, fill;
    for (const Step& step : c.steps) {
      const Seconds passes = total(c, step);
      most = std::max(
          {most, fill + passes - step.last.backward - step.last.recompute + step.gradient_sums, fill + total_with_weights(c, step)});
      fill += step.pass().forward + step.there();
    }
    return most;
  }

  /// Where it is shared out, of the shares: nobody knows who has how much of it without lowering the plan.
  Seconds slowest_optimizer() const {
    Seconds slowest;
    if (plan_.shard_optimizer) return slowest;
    for (const plan::Stage& stage : plan_.stages) {
      const plan::Replica* before = nullptr;
      for (const plan::Replica& replica : stage.replicas) {
        if (before && before->device_type == replica.device_type && before->tensor_parallel == replica.tensor_parallel) continue;
        before = &replica;
        const auto elements = tables_.of(plan_.model, replica.tensor_parallel).of_layers(stage.first_layer, stage.last_layer);
        slowest = std::max(slowest, forecaster_.optimizer_bound(elements, plan_.precision, replica.device_type));
      }
    }
    return slowest;
  }

  std::vector<Rank> members(std::initializer_list<const plan::Stage*> stages) const {
    std::vector<Rank> ranks;
    for (const plan::Stage* stage : stages)
      for (const plan::Replica& replica : stage->replicas)
        if (!replica.devices.empty()) ranks.push_back(replica.devices.front());
    return ranks;
  }

  /// The word table's gradient is whole only after the first stage's last operation.
  Seconds word_sum() const {
    const plan::Stage &first = plan_.stages.front(), &last = plan_.stages.back();
    const auto ranks = plan::own_stages(plan_) == 1 ? members({&first}) : members({&first, &last});
    if (plan_.shard_optimizer) return {};  // only half of the sum is made before the optimizer
    return forecaster_.sum_bound(tables_.of(plan_.model, first.replicas.front().tensor_parallel).word, ranks);
  }

  Seconds gradient_sums(const plan::Stage& stage) const {
    const auto ranks = members({&stage});
    if (ranks.size() < 2 || plan_.shard_optimizer) return {};
    const Elements& elements = tables_.of(plan_.model, stage.replicas.front().tensor_parallel);
    Seconds sum, of_one;
    for (int layer = stage.first_layer; layer < stage.last_layer; ++layer) {
      const bool known = layer > stage.first_layer && layer > 1 && plan_.model.is_block(layer);  // blocks are alike
      if (!known) of_one = forecaster_.sum_bound(elements.own[static_cast<std::size_t>(layer)], ranks);
      sum += of_one;
    }
    return sum;
  }

  const BoundedForecaster& forecaster_;
  ElementTables& tables_;
  const plan::Plan& plan_;
  bool dealt_alike_ = true;  // of zero-bubble plans
};

}  // namespace

Seconds bound_of_plan(const BoundedForecaster& forecaster, ElementTables& tables, const plan::Plan& plan) {
  return PlanBound{forecaster, tables, plan}.run();
}

}  // namespace flotilla::simulate
