#include "flotilla/sailor/formulas.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "flotilla/base/error.hpp"
#include "flotilla/sailor/artifact.hpp"
#include "support/refusal.hpp"

namespace flotilla::sailor {
namespace {

/// Four layers: embedding, two blocks, head.
model::Config model() {
  model::Config config = model::built_in("gpt2-tiny");
  config.name = "four";
  return config;
}

cluster::DeviceType device_type(const std::string& name, double usd_per_hour) {
  cluster::DeviceType type;
  type.name = name;
  type.memory = {100'000'000'000};
  type.per_node = 2;
  type.usd_per_hour = usd_per_hour;
  return type;
}

/// Layers 0, 1-2, 3 take 1, 2, 4 s forward on "fast", twice as long on "slow"; backward is twice forward; microbatch 2. A link moves
/// 1 GB/s inside a zone and 0.5 GB/s between zones, whatever the size.
cluster::Profile profile() {
  cluster::Profile p;
  p.device_types = {device_type("fast", 36), device_type("slow", 3.6)};
  for (const auto& [type, factor] : {std::pair{"fast", 1.0}, {"slow", 2.0}})
    for (int degree : {1, 4}) {
      const auto add = [&, name = type, times = factor / degree](int first, int last, double forward) {
        p.layer_times.push_back(
            {"four", name, first, last, degree, 2, Precision::fp32, {forward * times}, {2 * forward * times}, {0.5 * times}});
      };
      add(0, 1, 1), add(1, 3, 2), add(3, 4, 4);
    }
  for (int degree : {1, 4}) {
    p.layer_sizes.push_back({"four", 0, 1, degree, 1'000'000 / degree, 0, 10'000'000, 5'000'000 / degree});
    p.layer_sizes.push_back({"four", 1, 3, degree, 100'000'000 / degree, 0, 20'000'000, 50'000'000 / degree});
    p.layer_sizes.push_back({"four", 3, 4, degree, 1'000'000 / degree, 0, 1'000, 5'000'000 / degree});
  }
  for (const std::string a : {"fast", "slow"})
    for (const std::string b : {"fast", "slow"})
      for (int from : {1, 2})
        for (int to : {1, 2}) {
          for (const char* zone : {"here", "there"}) p.link_fits.push_back({zone, a, from, zone, b, to, 0, 0, 1, {1e9}});
          p.link_fits.push_back({"here", a, from, "there", b, to, 0, 0, 0.5, {5e8}});
        }
  p.egress_prices = {{"here", "there", 1e-11}, {"there", "here", 2e-11}};
  return p;
}

plan::Replica replica(const std::string& type, const std::string& zone, int degree, int sequences) {
  plan::Replica r;
  r.device_type = type;
  r.zone = zone;
  r.tensor_parallel = degree;
  r.quanta = 1;
  r.sequences = sequences;
  return r;
}

plan::Plan base_plan(int batch) {
  plan::Plan plan;
  plan.model = model();
  plan.length = plan.model.positions;
  plan.global_batch = batch;
  plan.quantum = 2;
  return plan;
}

plan::Plan two_stages() {
  plan::Plan plan = base_plan(12);
  plan.stages = {{0, 2, plan::Recompute::none, {replica("fast", "here", 1, 6), replica("slow", "here", 4, 6)}},
                 {2, 4, plan::Recompute::none, {replica("fast", "there", 1, 6), replica("fast", "there", 1, 6)}}};
  return plan;
}

TEST(SailorRules, ASingleDeviceIsPlainArithmetic) {
  const auto p = profile();
  plan::Plan plan = base_plan(6);
  plan.stages = {{0, 4, plan::Recompute::none, {replica("fast", "here", 1, 6)}}};
  const auto forecast = SailorArtifact{p}.forecast(plan);
  EXPECT_DOUBLE_EQ(forecast.iteration.value, 3 * (1 + 2 + 2 + 4) * 3 + 0.5);
  ASSERT_EQ(forecast.kinds.size(), 1u);
  EXPECT_DOUBLE_EQ(forecast.breakdown[simulate::Activity::forward].value, 27);
  EXPECT_DOUBLE_EQ(forecast.breakdown[simulate::Activity::backward].value, 54);
  EXPECT_DOUBLE_EQ(forecast.breakdown[simulate::Activity::bubble].value, 0);
  EXPECT_DOUBLE_EQ(forecast.expense.device_usd.value(), forecast.iteration.value / 100);
  EXPECT_EQ(forecast.expense.egress_usd, 0);
  EXPECT_EQ(forecast.expense.energy_joules, std::nullopt);  // nobody said how many watts
  EXPECT_EQ(forecast.peak_memory().count, 24LL * 202'000'000 + 2 * 4LL * 110'000'000 + 2'000'000'000);
}

TEST(SailorRules, TwoStagesByHand) {
  const auto p = profile();
  const auto forecast = SailorArtifact{p}.forecast(two_stages());
  // The first stage waits for its fast replica: 3 (1 + 2) s; the slow one, cut in four, takes half of that.
  const double first = 9, second = 3 * (2 + 4);
  // Layer 1 and layer 2 put out 80 MB for a sequence, at half a gigabyte a second between zones.
  const double up = 2 * 0.08 / 0.5, down = 2 * 2 * 0.08 / 0.5;
  const double pipeline = 2 * (second + down) + first + second + up + down + 0.5;
  // 404 MB of weights on either stage; within a zone, two members: 2 messages of half of it.
  const double reduction = 0.404;
  EXPECT_NEAR(forecast.iteration.value, pipeline + reduction, 1e-9);

  const double devices = (1 + 2) * 36 + 4 * 3.6;
  EXPECT_NEAR(forecast.expense.device_usd.value(), forecast.iteration.value * devices / 3600, 1e-9);
  // Three microbatches of two replicas each way; reductions stay in their zones.
  EXPECT_NEAR(forecast.expense.egress_usd.value(), 2 * 3 * 0.16e9 * (1e-11 + 2e-11), 1e-12);
}

TEST(SailorRules, EveryRanksTimeSumsToTheIteration) {
  const auto p = profile();
  const auto forecast = SailorArtifact{p}.forecast(two_stages());
  ASSERT_EQ(forecast.kinds.size(), 3u);
  std::vector<Rank> ranks;
  for (const auto& kind : forecast.kinds) {
    EXPECT_NEAR(kind.breakdown.total().value, forecast.iteration.value, 1e-9);
    EXPECT_GE(kind.breakdown[simulate::Activity::bubble].value, 0);
    Bytes sum;
    for (const Bytes part : kind.memory.categories) sum += part;
    EXPECT_EQ(sum, kind.memory.arena);
    ranks.insert(ranks.end(), kind.ranks.begin(), kind.ranks.end());
  }
  EXPECT_NEAR(forecast.breakdown.total().value, forecast.iteration.value, 1e-9);
  for (int r = 0; r < 7; ++r) EXPECT_EQ(ranks.at(static_cast<std::size_t>(r)), Rank{r});
  EXPECT_EQ(forecast.kinds[1].memory.runtime_constant.count, 3'000'000'000);
}

TEST(SailorRules, StagesMayDifferInReplicas) {
  const auto p = profile();
  plan::Plan plan = base_plan(12);
  plan.stages = {{0, 2, plan::Recompute::none, {replica("fast", "here", 1, 12)}},
                 {2, 4, plan::Recompute::none, {replica("fast", "here", 1, 6), replica("slow", "here", 1, 6)}}};
  // Six microbatches of the first stage's one replica; the slow one needs 36 s for each.
  EXPECT_NEAR(SailorArtifact{p}.forecast(plan).iteration.value, 5 * (36 + 2 * 0.16) + 9 + 36 + 0.16 + 2 * 0.16 + 1 + 0.404, 1e-9);
}

TEST(SailorRules, MessagesFollowTheFit) {
  const cluster::LinkFit fit{"a", "t", 1, "b", "t", 1, -0.01, 0.2, 1.5, {3e9}};
  EXPECT_DOUBLE_EQ(sailor_message(fit, 8e6).value, 0.008 / (-0.01 * 9 + 0.2 * 3 + 1.5));
  EXPECT_EQ(sailor_message(fit, 0).value, 0);
  // Far outside the fitted sizes the curve falls below zero; time does not.
  for (double bytes = 1; bytes < 1e15; bytes *= 3) EXPECT_GT(sailor_message(fit, bytes).value, 0) << bytes;
  const cluster::LinkFit flat{"a", "t", 1, "b", "t", 1, 0, 0, 1, {1e9}};
  EXPECT_NEAR(sailor_all_reduce(flat, 4, 1.2e9).value, 1.2 / 4 * 2 * 3, 1e-9);
  EXPECT_EQ(sailor_all_reduce(flat, 1, 1.2e9).value, 0);
}

TEST(SailorRules, ThePaceOfSendingDependsOnTheStage) {
  const Seconds up{2}, down{3};
  EXPECT_EQ(sailor_sending(0, 1, up, down).value, 0);
  EXPECT_EQ(sailor_sending(0, 3, up, down).value, 2);
  EXPECT_EQ(sailor_sending(0, 4, up, down).value, 4);
  EXPECT_EQ(sailor_sending(1, 3, up, down).value, 5);
  EXPECT_EQ(sailor_sending(2, 3, up, down).value, 6);
}

std::string refusal_of(const cluster::Profile& p, const plan::Plan& plan) {
  return tests::refusal(ErrorKind::unavailable, [&] { SailorArtifact{p}.forecast(plan); });
}

TEST(SailorRules, SaysWhatIsNotMeasured) {
  const auto expect = [](const cluster::Profile& p, const plan::Plan& plan, const std::string& part) {
    const auto what = refusal_of(p, plan);
    EXPECT_NE(what.find(part), std::string::npos) << what << "\nlacks " << part;
  };
  auto p = profile();
  auto plan = two_stages();
  plan.stages[1].replicas[1].tensor_parallel = 2;
  expect(p, plan, "no layer times on fast at tensor degree 2 and microbatches of 2");
  plan = two_stages();
  plan.stages[1].replicas[0].zone = "elsewhere";
  expect(p, plan, "no link fit between fast@here (tensor 1) and fast");
  plan = two_stages();
  plan.quantum = 1;
  expect(p, plan, "microbatches of 1");
  plan = two_stages();
  plan.precision = Precision::bf16;
  expect(p, plan, "fp32 only");
  plan = two_stages();
  plan.stages[0].recompute = plan::Recompute::full;
  expect(p, plan, "recomputation");
  plan = two_stages();
  plan.length = 8;
  expect(p, plan, "sequences of 256 tokens, not 8");
  p.layer_sizes.clear();
  expect(p, two_stages(), "no layer sizes");
  EXPECT_THROW(SailorArtifact{p}.forecast(two_stages(), true), Error);
}

TEST(SailorRules, ALayerThatWasNotTimedIsNoTimeAtAll) {
  auto p = profile();
  std::erase_if(p.layer_times, [](const cluster::LayerTime& t) { return t.first_layer == 1; });
  EXPECT_NE(refusal_of(p, two_stages()).find("no layer times"), std::string::npos);
}

TEST(SailorRules, FitsTheMemoryOfEveryReplica) {
  auto p = profile();
  const auto plan = two_stages();
  const SailorArtifact roomy{p};
  EXPECT_TRUE(sailor_fits(roomy.tables(plan.model), roomy.plan_of(plan)));
  p.device_types[1].memory = {3'600'000'000};
  const SailorArtifact tight{p};
  EXPECT_FALSE(sailor_fits(tight.tables(plan.model), tight.plan_of(plan)));
}

TEST(SailorRules, OddProfilesNeverGiveNoNumber) {
  std::mt19937_64 random{11};
  const auto fraction = [&] { return std::uniform_real_distribution{-1.0, 1.0}(random); };
  for (int i = 0; i < 300; ++i) {
    auto p = profile();
    for (auto& fit : p.link_fits) fit.a = 1e9 * fraction(), fit.b = 1e9 * fraction(), fit.c = 1e9 * fraction();
    for (auto& size : p.layer_sizes)
      size.output = static_cast<std::int64_t>(random() >> 24), size.parameters = static_cast<std::int64_t>(random() >> 24);
    for (auto& time : p.layer_times) time.forward = {1e9 * std::abs(fraction())};
    const auto forecast = SailorArtifact{p}.forecast(two_stages());
    ASSERT_TRUE(std::isfinite(forecast.iteration.value) && forecast.iteration.value >= 0) << forecast.iteration;
    ASSERT_TRUE(std::isfinite(forecast.expense.usd().value()));
    ASSERT_GE(forecast.peak_memory().count, 0);
  }
}

}  // namespace
}  // namespace flotilla::sailor
