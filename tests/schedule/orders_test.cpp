// The orders that the papers give, and the list scheduler's beside them.
#include <gtest/gtest.h>

#include <algorithm>

#include "pipelines.hpp"

namespace flotilla::schedule::orders_test {
namespace {

using plan::ScheduleKind;
using namespace testing;

std::string order(ScheduleKind kind, const Position& position) {
  return spelled(schedule::passes_of(schedule_of(kind).order(position)), position.chunks);
}

TEST(PublishedOrder, GPipeMakesAllForwardPassesFirst) {
  for (const int index : {0, 3}) EXPECT_EQ(order(ScheduleKind::gpipe, {4, index, 4}), "F0 F1 F2 F3 B0 B1 B2 B3");
}

TEST(PublishedOrder, OneForwardOneBackward) {
  EXPECT_EQ(order(ScheduleKind::one_f_one_b, {4, 0, 8}), "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7");
  EXPECT_EQ(order(ScheduleKind::one_f_one_b, {4, 2, 4}), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(order(ScheduleKind::one_f_one_b, {4, 3, 3}), "F0 B0 F1 B1 F2 B2");
  EXPECT_EQ(order(ScheduleKind::one_f_one_b, {4, 0, 2}), "F0 F1 B0 B1");
}

TEST(PublishedOrder, InterleavedGoesThroughTheChunksGroupByGroup) {
  // Narayanan et al. 2021, figure 4: the last of four devices, eight microbatches, two chunks.
  EXPECT_EQ(order(ScheduleKind::interleaved, {4, 3, 8, 2}),
            "F0.0 F0.1 F0.2 F0.3 F1.0 B1.0 F1.1 B1.1 F1.2 B1.2 F1.3 B1.3 F0.4 B0.0 F0.5 B0.1 F0.6 B0.2 F0.7 B0.3 "
            "F1.4 B1.4 F1.5 B1.5 F1.6 B1.6 F1.7 B1.7 B0.4 B0.5 B0.6 B0.7");
  // The first device is ten forward passes ahead.
  EXPECT_TRUE(order(ScheduleKind::interleaved, {4, 0, 8, 2})
                  .starts_with("F0.0 F0.1 F0.2 F0.3 F1.0 F1.1 F1.2 F1.3 F0.4 F0.5 F0.6 B1.0 F0.7 B1.1 F1.4 B1.2"));
  // As many microbatches as devices are no exception in Megatron-Core: the peaks of its golden values say so.
  EXPECT_EQ(order(ScheduleKind::interleaved, {2, 1, 2, 2}), "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 B0.0 B0.1");
}

TEST(PublishedOrder, ZeroBubbleDefersWeightGradients) {
  // Qi et al. 2023, ZB-H1: the last of four stages is three behind; the first one does not split.
  EXPECT_EQ(order(ScheduleKind::zero_bubble, {4, 3, 5}), "F0 B0 F1 B1 F2 B2 F3 B3 W0 F4 B4 W1 W2 W3 W4");
  EXPECT_EQ(order(ScheduleKind::zero_bubble, {4, 1, 3}), "F0 F1 F2 B0 B1 W0 B2 W1 W2");
  EXPECT_EQ(order(ScheduleKind::zero_bubble, {4, 0, 5}), order(ScheduleKind::one_f_one_b, {4, 0, 5}));
  // No room to defer: each half ends its own backward pass.
  Position none{4, 3, 2};
  none.deferrable = {0, 1};
  EXPECT_EQ(order(ScheduleKind::zero_bubble, none), "F0 B0 W0 F1 B1 W1");
}

/// Microbatches between their passes, and input halves whose weights' half is still to come, at most.
struct Held {
  int in_flight = 0, deferred = 0;
};
Held held(const std::vector<Pass>& passes, int chunk) {
  Held now, most;
  for (const Pass& pass : passes) {
    if (pass.chunk != chunk) continue;
    if (pass.work == Work::forward) most.in_flight = std::max(most.in_flight, ++now.in_flight);
    if (pass.work == Work::backward) --now.in_flight, ++now.deferred;
    if (pass.work == Work::weights) --now.deferred;
    if (pass.work != Work::backward) most.deferred = std::max(most.deferred, now.deferred);
  }
  return most;
}

/// Forward passes of all chunks whose backward pass is yet to come, at most.
int held_by_device(const std::vector<Pass>& passes) {
  int here = 0, most = 0;
  for (const Pass& pass : passes) {
    if (pass.work == Work::forward) most = std::max(most, ++here);
    if (pass.work == Work::backward) --here;
  }
  return most;
}

TEST(Schedule, KnowsWhatItsOrdersKeep) {
  for (const auto kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zero_bubble, ScheduleKind::interleaved})
    for (int depth = 1; depth <= 5; ++depth)
      for (int index = 0; index < depth; ++index)
        for (int n = 1; n <= 4 * depth; ++n) {
          const Schedule& schedule = schedule_of(kind);
          if (schedule.interleaves() && n % depth != 0) continue;
          const Position position{depth, index, n, schedule.interleaves() ? 2 : 1};
          const PassOrder order = schedule.order(position);
          const auto passes = schedule::passes_of(order);
          EXPECT_EQ(schedule.passes_in_flight(position), held_by_device(passes)) << spelled(passes, position.chunks);
          for (int c = 0; c < position.chunks; ++c) {
            const Held most = held(passes, c);
            EXPECT_LE(schedule.in_flight(position).least, most.in_flight) << spelled(passes, position.chunks);
            EXPECT_GE(schedule.in_flight(position).most, most.in_flight) << spelled(passes, position.chunks);
            if (position.chunks > 1) continue;
            EXPECT_EQ(order.in_flight, most.in_flight) << spelled(passes);
            EXPECT_EQ(order.splits(), schedule.splits(index));
            if (!order.splits()) continue;
            EXPECT_EQ(most.deferred, order.deferred) << spelled(passes);
            EXPECT_EQ(order.deferred, std::min(n - 1, schedule.most_deferred(index)));
          }
        }
}

TEST(ListScheduler, GivesThePublishedOrdersWhereStagesAreDealtAlike) {
  for (const auto kind : {ScheduleKind::one_f_one_b, ScheduleKind::interleaved})
    for (int devices = 2; devices <= 6; ++devices)
      for (int n = 1; n <= 4 * devices; ++n) {
        const Schedule& schedule = schedule_of(kind);
        const int chunks = schedule.interleaves() ? 2 + n % 2 : 1;
        if (schedule.interleaves() && (n % devices != 0 || n == devices)) continue;  // what is published
        const Column column{devices, n, chunks};
        const auto listed = list_schedule(column.shape(), schedule.rules(std::vector<Fraction>(static_cast<std::size_t>(devices))));
        const auto expected = published(schedule, devices, n, chunks);
        for (std::size_t d = 0; d < expected.size(); ++d)
          EXPECT_EQ(spelled(testing::passes_of(listed.devices[d].front()), chunks), spelled(expected[d].front(), chunks))
              << devices << " devices, " << n << " microbatches, device " << d;
      }
}

/// A schedule of one's own: GPipe by a rule, in as many lines as it takes.
class ForwardFirst : public PassRule {
 public:
  std::optional<Pass> next(const PipelineState& state, int stage, int replica) const override {
    const ScheduledDevice& here = state.device(stage, replica);
    for (const Pass& pass : {Pass{Work::forward, 0, here.chunks.front().forwards}, Pass{Work::backward, 0, here.chunks.front().backwards}})
      if (pass.microbatch < here.count()) return state.is_ready(stage, here, pass) ? std::optional{pass} : std::nullopt;
    return std::nullopt;
  }
};

TEST(ListScheduler, TakesAnyRule) {
  const Column column{3, 4};
  std::vector<std::unique_ptr<PassRule>> rules;
  rules.push_back(std::make_unique<ForwardFirst>());
  const auto listed = list_schedule(column.shape(), rules);
  const auto expected = published(schedule_of(ScheduleKind::gpipe), 3, 4);
  for (std::size_t d = 0; d < 3; ++d) EXPECT_EQ(testing::passes_of(listed.devices[d].front()), expected[d].front());
  EXPECT_EQ(listed.end, (4 + 3 - 1) * 3 * whole_batch / 4);
}

TEST(ListScheduler, SaysWhereAnOrderComesToAStandstill) {
  const Column column{2, 2};
  // The first device waits for a gradient that the second one can only send after the second microbatch.
  const std::vector<std::vector<std::vector<Pass>>> crossed{
      {{{Work::forward, 0, 0}, {Work::backward, 0, 0}, {Work::forward, 0, 1}, {Work::backward, 0, 1}}},
      {{{Work::forward, 0, 0}, {Work::forward, 0, 1}, {Work::backward, 0, 0}, {Work::backward, 0, 1}}}};
  class OneTick : public Timing {
    Ticks pass(const ScheduledDevice&, int, int, const Pass&) const override { return 1; }
  };
  EXPECT_FALSE(timed(column.shape(), crossed, OneTick{}).has_value());
}

TEST(UnderWay, CountsWhatALaterStageGathers) {
  EXPECT_EQ(under_way({1, 1, 1}), (std::vector<std::int64_t>{3, 2, 1}));
  EXPECT_EQ(under_way({1, 4}), (std::vector<std::int64_t>{8, 4}));  // four microbatches wait for one another
  EXPECT_EQ(in_flight_of(whole_batch / 2, 8), 4);
  EXPECT_EQ(in_flight_of(whole_batch / 2 + 1, 8), 5);
  EXPECT_EQ(in_flight_of(4 * whole_batch, 8), 8);
  EXPECT_EQ(in_flight_of(whole_batch, 0), 1);
}

}  // namespace
}  // namespace flotilla::schedule::orders_test
