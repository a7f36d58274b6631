// One planner: bound ranks and pools, one answer of all candidate generators, the same on any machine under any load.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "flotilla/base/error.hpp"
#include "flotilla/search/binding.hpp"
#include "flotilla/search/planner.hpp"
#include "simulate/cluster_fixture.hpp"

namespace {
std::atomic<bool> clock_jumps{false};
std::atomic<long> clock_readings{0};
}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// In place of the C library's, for everything in this process: a clock that may jump by hours at every reading.
extern "C" int clock_gettime(clockid_t id, struct timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, id, time);
  if (clock_jumps) time->tv_sec += 3600 * (clock_readings++ % 1000);
  return static_cast<int>(result);
}
#endif

namespace flotilla::planner_test {
namespace {

using search::PlanAnswer;
using search::PlanRequest;
using simulate::ProgramForecaster;

PlanRequest request(int batch = 24) {
  PlanRequest r;
  r.model = model::built_in("gpt2-mini");
  r.length = 64;
  r.global_batch = batch;
  return r;
}

/// Hosts of so many devices of a type each.
cluster::Profile mixed_ranks(const std::vector<std::pair<std::string, int>>& hosts, double fast = 200, double slow = 60) {
  auto profile = fixture::uniform_cluster(1, 1, fixture::device_type("slow", slow, 20));
  profile.device_types.push_back(fixture::device_type("fast", fast, 40));
  profile.devices.clear();
  for (std::size_t h = 0; h < hosts.size(); ++h)
    for (int d = 0; d < hosts[h].second; ++d)
      profile.devices.push_back({Rank{static_cast<int>(profile.devices.size())}, hosts[h].first, text("h", h), "", d, 1});
  return profile;
}

ProgramForecaster forecaster(const cluster::Profile& profile) { return {profile, {}, Bytes{16 << 20}}; }

/// Stages or replicas that data x pipeline x tensor degrees cannot say.
bool is_mixed(const plan::Plan& plan) {
  const auto& first = plan.stages.front();
  return std::ranges::any_of(plan.stages, [&](const plan::Stage& stage) {
    return stage.replicas.size() != first.replicas.size() || stage.recompute != first.recompute ||
           std::ranges::any_of(stage.replicas, [&](const plan::Replica& replica) {
             return replica.tensor_parallel != first.replicas.front().tensor_parallel || replica.quanta != first.replicas.front().quanta;
           });
  });
}

const std::vector<std::vector<std::pair<std::string, int>>> clusters{
    {{"fast", 2}, {"slow", 1}}, {{"fast", 1}, {"slow", 3}}, {{"slow", 2}, {"fast", 3}}, {{"fast", 4}, {"slow", 2}, {"slow", 1}}};

/// Bound ranks have the space of pools and that of even plans: never worse than either, and somewhere better than even plans.
TEST(Planner, BoundRanksGetTheBestOfAllGenerators) {
  int mixed = 0;
  for (const auto& hosts : clusters) {
    const auto profile = mixed_ranks(hosts);
    auto r = request();
    const auto all = search::plan(r, forecaster(profile));
    ASSERT_TRUE(all.best) << all.no_plan_reason;
    r.restrictions.uniform_degrees = true;
    const auto even = search::plan(r, forecaster(profile));
    ASSERT_TRUE(even.best) << even.no_plan_reason;
    EXPECT_LE(all.best->value, even.best->value);
    EXPECT_EQ(all.best->value, forecaster(profile).forecast(all.best->plan).iteration.value);
    EXPECT_TRUE(plan::validate(all.best->plan).empty());
    EXPECT_LE(all.bound, all.best->value);
    EXPECT_NEAR(all.bound, all.best->value * (1 - all.bound_gap), 1e-9 * all.best->value);
    double before = all.best->value;
    for (const auto& other : all.alternatives) {
      EXPECT_TRUE(other.value >= before || other.reason.find("does not fit") != std::string::npos) << other.reason;
      EXPECT_FALSE(other.plan.stages[0].replicas[0].devices.empty());
      before = std::max(before, other.value);
    }
    mixed += is_mixed(all.best->plan);
  }
  EXPECT_GT(mixed, 0);
}

/// As where one device of a host has become slow: types of one host, whose profile knows no links between hosts.
TEST(Planner, TypesOfOneHostAreMixedByItsOwnLinks) {
  auto profile = mixed_ranks({{"fast", 1}, {"slow", 1}, {"fast", 1}});
  for (auto& device : profile.devices) device.host = "h0";
  std::erase_if(profile.links, [](const auto& link) { return link.level != cluster::LinkLevel::node; });
  auto r = request();
  const auto all = search::plan(r, forecaster(profile));
  ASSERT_TRUE(all.best) << all.no_plan_reason;
  r.restrictions.uniform_degrees = true;
  EXPECT_LE(all.best->value, search::plan(r, forecaster(profile)).best->value);
  EXPECT_EQ(plan::rank_count(all.best->plan), 3) << plan::summary(all.best->plan);
}

/// What keeps a job's plans: on bound ranks every one of them, mixed or even.
TEST(Planner, BoundRanksKeepConstraints) {
  const auto profile = mixed_ranks(clusters[3]);
  std::vector<search::Constraints> all(6);
  all[0].pipeline = 2;
  all[1].data = 3;
  all[2].tensor = 2;
  all[3].microbatch = 3;
  all[4].cuts = {0, 2, 6};
  all[5].recompute = plan::Recompute::full, all[5].schedule = plan::ScheduleKind::zero_bubble;
  for (const auto& fixed : all) {
    auto r = request();
    r.constraints = fixed;
    const auto answer = search::plan(r, forecaster(profile));
    ASSERT_TRUE(answer.best) << answer.no_plan_reason;
    EXPECT_TRUE(keeps(answer.best->plan, settled(fixed))) << plan::summary(answer.best->plan);
    for (const auto& other : answer.alternatives) EXPECT_TRUE(keeps(other.plan, settled(fixed))) << plan::summary(other.plan);
  }
}

/// A host whose devices have become slower in the middle of a run: a type of their own, as the session makes it.
cluster::Profile with_slowed_host(cluster::Profile profile, const std::string& host, double factor) {
  std::string as;
  for (const auto& device : profile.devices)
    if (device.host == host) as = device.type;
  auto slower = *cluster::find_type(profile, as);
  slower.name = as + ", slowed";
  slower.peak_fp32.value /= factor;
  slower.memory_bandwidth.value /= factor;
  profile.device_types.push_back(slower);
  for (auto& device : profile.devices)
    if (device.host == host) device.type = slower.name;
  return profile;
}

/// The plan's types are what its ranks have today.
plan::Plan with_types_of(plan::Plan plan, const cluster::Profile& profile) {
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas) replica.device_type = profile.devices[replica.devices.front().index()].type;
  return plan;
}

TEST(Planner, AMixedPlanWithASlowedNodeIsAnsweredWithAMixedPlan) {
  int mixed = 0;
  for (const double slow : {60.0, 120.0})
    for (const std::size_t cluster : {std::size_t{1}, std::size_t{2}})
      for (const char* host : {"h0", "h1"}) {
        const auto profile = mixed_ranks(clusters[cluster], 200, slow);
        auto r = request();
        const auto before = search::plan(r, forecaster(profile));
        ASSERT_TRUE(before.best) << before.no_plan_reason;
        ASSERT_TRUE(is_mixed(before.best->plan)) << plan::summary(before.best->plan);
        const auto today = with_slowed_host(profile, host, 2.5);
        r.previous = with_types_of(before.best->plan, today);
        const double stays = forecaster(today).forecast(*r.previous).iteration.value;
        const auto after = search::plan(r, forecaster(today));
        ASSERT_TRUE(after.best) << after.no_plan_reason;
        EXPECT_LE(after.best->value, stays * (1 + 1e-12));
        r.previous.reset();
        r.restrictions.uniform_degrees = true;
        EXPECT_LE(after.best->value, search::plan(r, forecaster(today)).best->value);
        mixed += is_mixed(after.best->plan) && after.best->value < 0.9 * stays;
      }
  EXPECT_GE(mixed, 4);
}

/// Everything of an answer that is told.
void expect_same(const PlanAnswer& a, const PlanAnswer& b) {
  ASSERT_EQ(a.best.has_value(), b.best.has_value());
  if (a.best) {
    EXPECT_EQ(a.best->plan, b.best->plan);
    EXPECT_EQ(a.best->value, b.best->value);
  }
  EXPECT_EQ(a.considered, b.considered);
  EXPECT_EQ(a.pruned, b.pruned);
  EXPECT_EQ(a.bound, b.bound);
  ASSERT_EQ(a.alternatives.size(), b.alternatives.size());
  for (std::size_t i = 0; i < a.alternatives.size(); ++i) EXPECT_EQ(a.alternatives[i].plan, b.alternatives[i].plan);
}

/// A machine with more to do than it has processors for, and a clock that jumps.
class Load {
 public:
  Load() {
    clock_jumps = true;
    for (int i = 0; i < 4; ++i)
      threads_.emplace_back([](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
        }
      });
  }
  ~Load() { clock_jumps = false; }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

 private:
  std::vector<std::jthread> threads_;
};

TEST(Planner, TheSameRanksGetTheSamePlanUnderAnyLoad) {
  const auto profile = mixed_ranks(clusters[2]);
  const auto quiet = search::plan(request(), forecaster(profile));
  const Load load;
  expect_same(quiet, search::plan(request(), forecaster(profile)));
}

/// Each forecast takes a while longer than the one before, as on a machine that is being used up.
TEST(Planner, TheSamePoolGetsTheSamePlanUnderAnyLoad) {
  const auto profile = mixed_ranks(clusters[3]);
  auto r = request();
  r.pool = search::pool_of_devices(profile);
  r.process_memory = [](int) { return Bytes{16 << 20}; };
  const auto quiet = search::plan(r, forecaster(profile));
  const Load load;
  r.process_memory = [calls = 0](int) mutable {
    usleep(static_cast<useconds_t>(++calls % 50) * 20);
    return Bytes{16 << 20};
  };
  expect_same(quiet, search::plan(r, forecaster(profile)));
}

}  // namespace
}  // namespace flotilla::planner_test
