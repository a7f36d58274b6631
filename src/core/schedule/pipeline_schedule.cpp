#include "flotilla/schedule/pipeline_schedule.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "device_orders.hpp"
#include "index.hpp"
#include "list_scheduler.hpp"

namespace flotilla::schedule {
namespace {

/// A forward pass just before becomes the first part of a loop with this backward pass.
void add_backward(std::vector<PassLoop>& loops, int microbatch) {
  if (loops.empty() || (loops.back().forward >= 0 && loops.back().backward >= 0)) {
    loops.push_back({1, -1, microbatch});
    return;
  }
  PassLoop& last = loops.back();
  if (last.forward < 0) {
    ++last.repeat;
    return;
  }
  const int forward = last.forward + last.repeat - 1;
  if (--last.repeat == 0) loops.pop_back();
  const bool goes_on = !loops.empty() && loops.back().forward >= 0 && loops.back().backward >= 0 &&
                       loops.back().forward + loops.back().repeat == forward && loops.back().backward + loops.back().repeat == microbatch;
  if (goes_on)
    ++loops.back().repeat;
  else
    loops.push_back({1, forward, microbatch});
}

void add_forward(std::vector<PassLoop>& loops, int microbatch) {
  if (!loops.empty() && loops.back().backward < 0)
    ++loops.back().repeat;
  else
    loops.push_back({1, microbatch, -1});
}

PassOrder order_of(const ScheduledDevice& device) {
  PassOrder order;
  for (const TimedPass& pass : device.passes) {
    if (pass.work == Work::forward) add_forward(order.loops, pass.microbatch);
    if (pass.work == Work::backward) add_backward(order.loops, pass.microbatch);
  }
  order.in_flight = std::max(1, device.limit);
  return device.deferred < 0 ? order : with_weights(std::move(order), device.deferred);
}

std::vector<std::vector<PassOrder>> orders_of(const ListSchedule& listed) {
  std::vector<std::vector<PassOrder>> orders;
  for (const auto& stage : listed.devices) {
    auto& of_stage = orders.emplace_back();
    for (const ScheduledDevice& device : stage) of_stage.push_back(order_of(device));
  }
  return orders;
}

/// Orders of columns alone: by own stage and kind of column, and the kind of each replica.
struct OrdersOfColumns {
  std::vector<std::vector<DeviceOrder>> orders;
  std::vector<int> kinds;
};

OrdersOfColumns orders_of_columns(const PipelineShape& shape, const Schedule& schedule, const std::vector<Fraction>& deferrable) {
  OrdersOfColumns found{std::vector<std::vector<DeviceOrder>>(shape.batch_partitions.size()), {}};
  std::map<std::tuple<std::size_t, int, int>, int> seen;  // microbatches, sequences of the first and of the last
  for (const auto& microbatches : shape.batch_partitions.front()) {
    const auto [known, fresh] = seen.try_emplace(
        {microbatches.size(), microbatches.empty() ? 0 : microbatches.front().count, microbatches.empty() ? 0 : microbatches.back().count},
        static_cast<int>(found.orders.front().size()));
    found.kinds.push_back(known->second);
    if (!fresh) continue;
    plan::BatchPartition column{microbatches};
    for (int first = 0; auto& m : column.front()) m.first = std::exchange(first, first + m.count);
    const std::vector<plan::BatchPartition> batch_partitions(shape.batch_partitions.size(), column);
    const PipelineShape alone{batch_partitions, shape.boundaries, shape.chunks, shape.training};
    auto orders = device_orders(alone, list_schedule(alone, schedule.rules(deferrable)));
    for (std::size_t p = 0; p < orders.size(); ++p) found.orders[p].push_back(std::move(orders[p].front()));
  }
  return found;
}

}  // namespace

PipelineSchedule::PipelineSchedule(const plan::Plan& plan, int sequences, bool training)
    : depth_{plan::own_stages(plan)}, training_{training}, schedule_{&schedule_of(plan)} {
  const auto stages = static_cast<int>(plan.stages.size());
  for (int s = 0; s < stages; ++s)
    batch_partitions_.push_back(s > 0 && plan::partitioned_alike(plan, s, s - 1) ? plan::BatchPartition{batch_partitions_.back()}
                                                                                 : plan::partition_batch(plan, s, sequences));
  for (int s = 0; s + 1 < stages; ++s) boundaries_.push_back(boundary_between(batch_partitions_[at(s)], batch_partitions_[at(s + 1)]));
  for (int s = 0; s < stages; ++s) deferrable_.push_back(schedule_->splits(s) ? schedule_->deferrable(plan, s) : Fraction{});
  const bool alike = std::ranges::all_of(boundaries_, &Boundary::alike);
  if (plan.chunks > 1 && depth_ > 1) {
    const std::vector<plan::BatchPartition> own{batch_partitions_.begin(), batch_partitions_.begin() + depth_};
    const PipelineShape shape{own, boundaries_, plan.chunks, training};
    if (alike)
      std::tie(device_orders_, kinds_) = [&] {
        auto [orders, kinds] = orders_of_columns(shape, *schedule_, deferrable_);
        return std::pair{std::move(orders), std::move(kinds)};
      }();
    else
      device_orders_ = device_orders(shape, list_schedule(shape, schedule_->rules(deferrable_)));
  } else if (training && !alike) {
    if (const auto rules = schedule_->rules(deferrable_); !rules.empty())
      orders_ = orders_of(list_schedule({batch_partitions_, boundaries_}, rules));
  }
}

PassOrder PipelineSchedule::order(int stage, int replica) const {
  const auto microbatches = static_cast<int>(batch_partitions_[at(stage)][at(replica)].size());
  if (!training_) return forward_only(microbatches);
  if (!orders_.empty()) return orders_[at(stage)][at(replica)];
  return schedule_->order({depth_, stage, microbatches, 1, deferrable_[at(stage)]});
}

const DeviceOrder& PipelineSchedule::device_order(int own_stage, int replica) const {
  return device_orders_[at(own_stage)][at(kinds_.empty() ? replica : kinds_[at(replica)])];
}

}  // namespace flotilla::schedule
