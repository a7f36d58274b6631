#include <algorithm>

#include "bounds.hpp"
#include "flotilla/plan/batch_partition.hpp"
#include "flotilla/schedule/bound.hpp"

// A lower bound of the iteration time without lowering the plan. Where stages are dealt alike, replica r of every stage form a column,
// along which microbatches travel, and the schedule bounds its time (schedule/bound.hpp). Else each replica does its own passes at least.
namespace flotilla::simulate {
namespace {

LayerBound operator+(const LayerBound& a, const LayerBound& b) {
  return {a.forward + b.forward, a.backward + b.backward, a.recompute + b.recompute, a.input_half + b.input_half,
          a.weights_half + b.weights_half};
}
LayerBound operator*(const LayerBound& a, double n) {
  return {a.forward * n, a.backward * n, a.recompute * n, a.input_half * n, a.weights_half * n};
}
schedule::PassTimes as_run(const LayerBound& b, bool splits) {
  const schedule::PassTimes whole{b.forward, b.backward, b.recompute, {}};
  return splits ? schedule::split(whole, b.input_half, b.weights_half) : whole;
}

class PlanBound {
 public:
  PlanBound(const BoundedForecaster& forecaster, ElementTables& tables, const plan::Plan& plan)
      : forecaster_{forecaster}, tables_{tables}, plan_{plan}, schedule_{schedule::schedule_of(plan)} {}

  Seconds run() const {
    const Seconds update = slowest_optimizer(), token_embedding = token_embedding_sum();
    std::vector<Seconds> sums;
    for (const plan::Stage& stage : plan_.stages) sums.push_back(gradient_sums(stage));
    Seconds bound;
    const auto add = [&](const schedule::ColumnTimes& column) {
      const auto [last_backward, last_sum] = schedule::bound(schedule_, column);
      bound = std::max({bound, last_backward + token_embedding + update, last_sum + update});
    };
    const int stages = static_cast<int>(plan_.stages.size());
    const bool columns = has_columns();
    for (int s = 0; s < (columns ? 1 : stages); ++s)
      for (std::size_t r = 0; r < plan_.stages[static_cast<std::size_t>(s)].replicas.size(); ++r)
        if (!columns || r == 0 || !alike(r, r - 1)) add(column_of(r, s, columns ? stages : s + 1, sums));
    // Additions here and in the machine are in different orders; a part in 10^12 keeps rounding on the safe side.
    return bound * (1 - 1e-12);
  }

 private:
  bool has_columns() const {
    for (int s = 0; s + 1 < static_cast<int>(plan_.stages.size()); ++s)
      if (!plan::partitioned_alike(plan_, s, s + 1)) return false;
    return true;
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

  /// Of stages [first, last): all of them, or one.
  schedule::ColumnTimes column_of(std::size_t r, int first, int last_stage, const std::vector<Seconds>& sums) const {
    schedule::ColumnTimes column;
    column.chunks = first == 0 && last_stage == static_cast<int>(plan_.stages.size()) ? plan_.chunks : 1;
    for (auto s = static_cast<std::size_t>(first); s < static_cast<std::size_t>(last_stage); ++s) {
      const auto& stage = plan_.stages[s];
      const auto& replica = stage.replicas[r];
      const int full = plan::largest_microbatch(plan_, replica);
      const int count = replica.microbatches(plan_.quantum), last = replica.sequences - (count - 1) * full;
      const bool splits = schedule_.splits(static_cast<int>(s));
      schedule::StageTimes times;
      times.full = as_run(pass(stage, replica, full), splits);
      times.last = last == full ? times.full : as_run(pass(stage, replica, last), splits);
      times.sums = sums[s];
      if (s + 1 < static_cast<std::size_t>(last_stage) && plan::own_stages(plan_) > 1) {
        const auto& next = plan_.stages[s + 1].replicas[r].devices;
        const auto message = [&](const auto& from, const auto& to, int n) {
          model::LayerShape sent = shape(replica, n);
          sent.sequence_parallel = plan_.sequence_parallel;  // of either end
          return forecaster_.message_bound(plan_.model, sent, from, to);
        };
        times.there_full = message(replica.devices, next, full);
        times.there_last = message(replica.devices, next, last);
        times.back_full = message(next, replica.devices, full);
        times.back_last = message(next, replica.devices, last);
      }
      column.microbatches = count;
      column.stages.push_back(times);
    }
    return column;
  }

  /// Where it is sharded, of the shares: nobody knows who has how much of it without lowering the plan.
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

  /// The token embedding's gradient is whole only after the first stage's last operation.
  Seconds token_embedding_sum() const {
    const plan::Stage &first = plan_.stages.front(), &last = plan_.stages.back();
    const auto ranks = plan::own_stages(plan_) == 1 ? members({&first}) : members({&first, &last});
    if (plan_.shard_optimizer) return {};  // only half of the sum is made before the optimizer
    return forecaster_.sum_bound(tables_.of(plan_.model, first.replicas.front().tensor_parallel).token_embedding, ranks);
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
  const schedule::Schedule& schedule_;
};

}  // namespace

Seconds bound_of_plan(const BoundedForecaster& forecaster, ElementTables& tables, const plan::Plan& plan) {
  return PlanBound{forecaster, tables, plan}.run();
}

}  // namespace flotilla::simulate
