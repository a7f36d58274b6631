// What crosses the network by the plan, and how long it should take.
#include <gtest/gtest.h>

#include "flotilla/base/text.hpp"
#include "flotilla/model/config.hpp"
#include "flotilla/program/program.hpp"
#include "traffic_forecast.hpp"

namespace flotilla::monitor {
namespace {

/// One rank on each host, or two, all hosts of a zone joined by links of one kind.
cluster::Profile ranks_on_hosts(int ranks, int per_host) {
  cluster::Profile profile;
  cluster::DeviceType type;
  type.name = "cpu";
  type.memory = Bytes{std::int64_t{1} << 32};
  type.peak_fp32 = type.peak_bf16 = FlopsPerSecond{1e10};
  type.memory_bandwidth = BytesPerSecond{1e10};
  profile.device_types = {type};
  for (int r = 0; r < ranks; ++r) profile.devices.push_back({Rank{r}, "cpu", text("n", r / per_host), "", r % per_host, 1});
  const auto link = [](cluster::LinkLevel level, double rate) {
    cluster::Link made;
    made.level = level;
    made.pieces = {{{0}, Seconds{1e-4}, BytesPerSecond{rate}}};
    return made;
  };
  profile.links = {link(cluster::LinkLevel::node, 1e10), link(cluster::LinkLevel::zone, 1e8)};
  return profile;
}

plan::Plan even_plan(int data, int pipeline, int tensor) {
  return plan::even_plan(model::built_in("gpt2-tiny"), 32, 8, Precision::fp32, data, pipeline, tensor, 2);
}

std::vector<Rank> first(int ranks) {
  std::vector<Rank> all;
  for (int r = 0; r < ranks; ++r) all.emplace_back(r);
  return all;
}

struct Sum {
  int instructions = 0;
  double seconds = 0;
};
template <class Which>
Sum sum_of(const std::vector<InstructionTraffic>& all, Which which) {
  Sum sum;
  for (const auto& instruction : all)
    if (which(instruction)) ++sum.instructions, sum.seconds += instruction.forecast[0].value;
  return sum;
}
bool sends(const InstructionTraffic& instruction) { return instruction.peer >= 0; }
bool sums(const InstructionTraffic& instruction) { return instruction.group >= 0; }

TEST(Traffic, StagesSendAndReplicasSum) {
  const auto profile = ranks_on_hosts(2, 1);
  const auto staged = traffic_of_instructions(program::lower(even_plan(1, 2, 1), {}), Rank{0}, profile, first(2));
  EXPECT_GT(sum_of(staged, sends).instructions, 0);
  EXPECT_EQ(sum_of(staged, sends).instructions,
            sum_of(staged, [](const InstructionTraffic& instruction) { return instruction.peer == 1; }).instructions);
  const auto replicated = traffic_of_instructions(program::lower(even_plan(2, 1, 1), {}), Rank{0}, profile, first(2));
  EXPECT_EQ(sum_of(replicated, sends).instructions, 0);
  EXPECT_GT(sum_of(replicated, sums).seconds, 0);
}

TEST(Traffic, TakesTheLinksOfTheJobsRanks) {
  // The active ranks' ranks are 1 and 2 of the job: on two hosts, where 0 and 1 share one.
  const auto profile = ranks_on_hosts(4, 2);
  const auto program = program::lower(even_plan(2, 1, 1), {});
  const auto near = sum_of(traffic_of_instructions(program, Rank{0}, profile, {Rank{0}, Rank{1}}), sums);
  const auto far = sum_of(traffic_of_instructions(program, Rank{0}, profile, {Rank{1}, Rank{2}}), sums);
  EXPECT_GT(far.seconds, 3 * near.seconds);
}

TEST(Traffic, GroupsBesideEachOtherShareTheCards) {
  const auto one = sum_of(traffic_of_instructions(program::lower(even_plan(2, 1, 1), {}), Rank{0}, ranks_on_hosts(2, 1), first(2)), sums);
  // Two tensor-parallel replicas: two groups over the same two hosts, each with about half of the gradients.
  const auto two = traffic_of_instructions(program::lower(even_plan(2, 1, 2), {}), Rank{0}, ranks_on_hosts(4, 2), first(4));
  const auto program = program::lower(even_plan(2, 1, 2), {});
  const auto data = sum_of(two, [&](const InstructionTraffic& s) {
    return sums(s) && program.groups[static_cast<std::size_t>(s.group)].kind == program::Group::Kind::data;
  });
  EXPECT_GT(data.seconds, 0.8 * one.seconds);
}

}  // namespace
}  // namespace flotilla::monitor
