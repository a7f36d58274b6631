#include "flotilla/simulate/why_not.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cluster_fixture.hpp"
#include "flotilla/simulate/forecaster.hpp"

// Why a plan does not fit, and what would make it fit.
namespace flotilla::why_not_test {
namespace {

using simulate::ChangedPlan;
using simulate::Forecast;
using simulate::MemoryForecast;

constexpr int length = 64;
constexpr Bytes runtime_constant{1 << 20};

plan::Plan plan_of(int data, int pipeline, int microbatch, plan::ScheduleKind schedule = plan::ScheduleKind::one_f_one_b) {
  auto plan = plan::even_plan(model::built_in("gpt2-mini"), length, 16, Precision::fp32, data, pipeline, 1, microbatch, schedule);
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas) replica.device_type = "slow";
  return plan;
}

TEST(Tightest, AGpusHostMayBeShorterThanTheGpu) {
  Forecast forecast;
  auto& kind = forecast.kinds.emplace_back();
  kind.ranks = {Rank{0}};
  kind.memory.arena = Bytes{100};
  kind.memory.on_host = {Bytes{10}, Bytes{20}, Bytes{30}, Bytes{50}};
  const auto gpu = [](Rank) { return std::optional{Bytes{1000}}; };
  const auto host = simulate::tightest(forecast, gpu);
  ASSERT_TRUE(host);
  EXPECT_TRUE(host->of_host);
  EXPECT_EQ(host->needed, Bytes{60});
  EXPECT_EQ(host->limit, Bytes{50});
  kind.memory.on_host.limit = Bytes{5000};
  EXPECT_FALSE(simulate::tightest(forecast, gpu)->of_host);
  kind.memory.on_host.limit = Bytes{};
  EXPECT_EQ(simulate::tightest(forecast, gpu)->needed, Bytes{100}) << "a limit that nobody knows excludes nothing";
}

TEST(Contributors, ComeInOrderOfSize) {
  MemoryForecast memory;
  memory.categories = {Bytes{5}, Bytes{0}, Bytes{40}, Bytes{7}, Bytes{0}, Bytes{1}};
  memory.runtime_constant = Bytes{6};
  const std::vector<std::pair<std::string, Bytes>> expected{{"optimizer", Bytes{40}},
                                                            {"activations", Bytes{7}},
                                                            {"the rest of the process", Bytes{6}},
                                                            {"parameters", Bytes{5}},
                                                            {"workspace", Bytes{1}}};
  EXPECT_EQ(simulate::contributors(memory), expected);
  EXPECT_EQ(simulate::contributors_in_words(memory), "optimizer 40 B, activations 7 B, the rest of the process 6 B");
}

TEST(Tightest, IsTheRankWithTheLeastToSpare) {
  Forecast forecast;
  forecast.kinds.resize(2);
  forecast.kinds[0].ranks = {Rank{0}, Rank{2}};
  forecast.kinds[0].memory.arena = Bytes{100};
  forecast.kinds[1].ranks = {Rank{1}};
  forecast.kinds[1].stage = 1;
  forecast.kinds[1].memory.arena = Bytes{50};
  const auto limit = [](Rank rank) -> std::optional<Bytes> {
    if (rank == Rank{0}) return std::nullopt;
    return Bytes{rank == Rank{1} ? 40 : 95};
  };
  const auto found = simulate::tightest(forecast, limit);
  ASSERT_TRUE(found);
  EXPECT_EQ(std::tuple(found->rank, found->stage, found->needed, found->limit), std::tuple(Rank{1}, 1, Bytes{50}, Bytes{40}));
  EXPECT_FALSE(simulate::tightest(forecast, [](Rank) { return std::optional<Bytes>{}; }));
}

TEST(Remedy, OfAllThatFitTheFastest) {
  const auto plan = plan_of(1, 2, 8);
  const auto all_recompute = [](const plan::Plan& p) {
    return std::ranges::all_of(p.stages, [](const auto& s) { return s.recompute == plan::Recompute::full; });
  };
  const auto forecast = [&](const plan::Plan& p) -> std::optional<ChangedPlan> {
    if (all_recompute(p)) return ChangedPlan{Seconds{1.5}, Bytes{9}};
    if (p.stages[0].recompute == plan::Recompute::full) return ChangedPlan{Seconds{1.25}, Bytes{7}};
    if (p.stages[0].last_layer < plan.stages[0].last_layer) return ChangedPlan{Seconds{1.1}, Bytes{-1}};
    return std::nullopt;
  };
  const auto remedy = simulate::find_remedy(plan, {0}, Seconds{1}, forecast);
  ASSERT_TRUE(remedy);
  EXPECT_EQ(remedy->change, "recompute full in stage 0");
  EXPECT_EQ(std::tuple(remedy->spare, remedy->iteration, remedy->slowdown, remedy->more_devices),
            std::tuple(Bytes{7}, Seconds{1.25}, 0.25, 0));
}

TEST(Remedy, OnlyWhereNothingElseFitsOnMoreDevices) {
  const auto plan = plan_of(1, 2, 8);
  int transfer_sources = 0;
  const auto wider = [&](const plan::Plan& p) -> std::optional<ChangedPlan> {
    ++transfer_sources;
    EXPECT_TRUE(plan::validate(p).empty());
    return plan::rank_count(p) > plan::rank_count(plan) ? std::optional{ChangedPlan{Seconds{0.75}, Bytes{0}}} : std::nullopt;
  };
  const auto remedy = simulate::find_remedy(plan, {0, 1}, Seconds{1}, wider);
  ASSERT_TRUE(remedy);
  EXPECT_EQ(remedy->change, "twice the tensor degree");
  EXPECT_EQ(remedy->more_devices, 2);
  EXPECT_EQ(remedy->slowdown, -0.25);
  EXPECT_GT(transfer_sources, 8);
  EXPECT_FALSE(simulate::find_remedy(plan, {0, 1}, Seconds{1}, [](const auto&) { return std::optional<ChangedPlan>{}; }));
}

std::set<std::string> changes_tried(const plan::Plan& plan, const std::vector<int>& stages) {
  std::set<std::string> words;
  for (Bytes spare{0};;) {
    // Each round all that was found before does not fit.
    const auto remedy =
        simulate::find_remedy(plan, stages, Seconds{1}, [&, n = 0](const plan::Plan&) mutable -> std::optional<ChangedPlan> {
          return ++n > static_cast<int>(words.size()) ? std::optional{ChangedPlan{Seconds{static_cast<double>(n)}, spare}} : std::nullopt;
        });
    if (!remedy || !words.insert(remedy->change).second) return words;
  }
}

TEST(Remedy, GoesOnFromTheNearestMissWhereOneChangeIsNotEnough) {
  const auto plan = plan_of(1, 1, 4);
  const auto forecast = [](const plan::Plan& p) -> std::optional<ChangedPlan> {
    const bool small = p.stages[0].replicas[0].quanta * p.quantum == 1, all = p.stages[0].recompute == plan::Recompute::full;
    return ChangedPlan{Seconds{1}, Bytes{(small ? 3 : 0) + (all ? 2 : 0) - 4}};
  };
  const auto remedy = simulate::find_remedy(plan, {0}, Seconds{1}, forecast);
  ASSERT_TRUE(remedy);
  EXPECT_EQ(remedy->change, "microbatches of 1 instead of 4 sequences, and recompute full in stage 0");
  EXPECT_EQ(remedy->spare, Bytes{1});
}

TEST(Remedy, TriesEveryKindOfChange) {
  const auto words = changes_tried(plan_of(2, 2, 4, plan::ScheduleKind::gpipe), {0});
  for (const char* change :
       {"recompute full in stage 0", "recompute full in every stage", "microbatches of 2 instead of 4 sequences",
        "microbatches of 1 instead of 4 sequences", "schedule 1f1b instead of gpipe", "optimizer sharded over replicas",
        "one layer moved from stage 0 to stage 1", "twice the tensor degree, half the replicas", "twice the stages, half the replicas"})
    EXPECT_TRUE(words.contains(change)) << change;
}

/// Of four replicas each has a quarter of the moments: no other change of a plan without tensor groups needs as little.
TEST(Remedy, SharesTheOptimizerOutWhereItsStateIsTooMuch) {
  auto profile = fixture::uniform_cluster(1, 4);
  fixture::measure(profile, model::built_in("gpt2-mini"), length, Precision::fp32, {1}, {1});
  const simulate::ProgramForecaster forecaster{profile, {}, runtime_constant};
  const auto plan = plan_of(4, 1, 1);
  auto shared = plan;
  shared.shard_optimizer = true;
  const auto before = forecaster.forecast(plan), after = forecaster.forecast(shared);
  const Bytes moments = 8 * Bytes{model::parameter_count(plan.model)};
  EXPECT_GT((before.peak_memory() - after.peak_memory()).count, moments.count / 2);
  const auto attempt = [&](const plan::Plan& p) -> std::optional<ChangedPlan> {
    if (plan::rank_count(p) > 4 || p.stages.size() > 1 || p.stages[0].replicas[0].tensor_parallel > 1) return std::nullopt;
    const auto f = forecaster.forecast(p);
    return ChangedPlan{f.iteration, after.peak_memory() - f.peak_memory()};
  };
  const auto remedy = simulate::find_remedy(plan, {0}, before.iteration, attempt);
  ASSERT_TRUE(remedy);
  EXPECT_EQ(remedy->change, "optimizer sharded over replicas");
  EXPECT_EQ(remedy->plan, shared);
  EXPECT_EQ(std::pair(remedy->spare, remedy->more_devices), std::pair(Bytes{0}, 0));
  // Who has one replica, and a token embedding of its own for the head, has nobody to share with.
  auto alone = plan_of(1, 2, 1);
  alone.model.tied_head = false;
  EXPECT_FALSE(changes_tried(alone, {0}).contains("optimizer sharded over replicas"));
  EXPECT_TRUE(changes_tried(plan_of(1, 2, 1), {0}).contains("optimizer sharded over replicas"));
}

TEST(WhyNot, NamesTheDeviceAndAChangeThatDoesFit) {
  auto profile = fixture::uniform_cluster(1, 2);
  fixture::measure(profile, model::built_in("gpt2-mini"), length, Precision::fp32, {1, 2}, {1, 2, 4, 8});
  const simulate::ProgramForecaster forecaster{profile, {}, runtime_constant};
  const auto plan = plan_of(1, 2, 8);
  const auto roomy = forecaster.forecast(plan);
  profile.device_types[0].memory = roomy.peak_memory() - Bytes{1};
  const auto attempt = [&](const plan::Plan& p) -> std::optional<ChangedPlan> {
    if (plan::rank_count(p) > 2) return std::nullopt;
    const auto f = forecaster.forecast(p);
    return ChangedPlan{f.iteration, profile.device_types[0].memory - f.peak_memory()};
  };
  const auto report = simulate::report_of(plan, profile, roomy);
  EXPECT_FALSE(report.fits());
  const auto why = simulate::why_not(plan, report, attempt);
  ASSERT_TRUE(why);
  EXPECT_EQ(why->shortage.needed, roomy.peak_memory());
  EXPECT_EQ(why->shortage.needed - why->shortage.limit, Bytes{1});
  EXPECT_EQ(why->shortage.host, "h0");
  ASSERT_TRUE(why->remedy);
  const auto mended = forecaster.forecast(why->remedy->plan);
  EXPECT_LE(mended.peak_memory(), profile.device_types[0].memory);
  EXPECT_EQ(mended.iteration, why->remedy->iteration);
  const auto words = simulate::in_words(*why);
  EXPECT_NE(words.find("1 B more than its"), std::string::npos) << words;
  EXPECT_NE(words.find(why->remedy->change), std::string::npos) << words;
  profile.device_types[0].memory = roomy.peak_memory();
  EXPECT_FALSE(simulate::why_not(plan, simulate::report_of(plan, profile, roomy), attempt));
}

TEST(Report, HasARowForEveryKindAndTheShareOfThePeaks) {
  auto profile = fixture::uniform_cluster(2, 2);
  profile.devices[2].zone = profile.devices[3].zone = "z";
  profile.links.push_back(fixture::link(cluster::LinkLevel::wide, "", "z", 1e-3, 1e7));
  const auto plan = plan_of(2, 2, 2);
  const auto forecast = simulate::ProgramForecaster{profile, {}, runtime_constant}.forecast(plan);
  const auto report = simulate::report_of(plan, profile, forecast);
  ASSERT_EQ(report.rows.size(), forecast.kinds.size());
  int ranks = 0;
  for (const auto& row : report.rows) {
    ranks += row.ranks;
    EXPECT_EQ(row.stages, std::vector<int>{row.zone == "z" ? 1 : 0});
    EXPECT_EQ(row.host, row.zone == "z" ? "h1" : "h0");
    EXPECT_EQ(row.limit, profile.device_types[0].memory);
    EXPECT_NEAR(row.breakdown.total().value, report.iteration.value, 1e-12);
  }
  EXPECT_EQ(ranks, 4);
  EXPECT_EQ(report.peak_memory(), forecast.peak_memory());
  const double flops = model::training_flops_per_token(plan.model, length) * length * 16;
  EXPECT_DOUBLE_EQ(*report.share_of_peak, flops / (forecast.iteration.value * 4 * 50e9));
  EXPECT_DOUBLE_EQ(report.tokens_per_second(), length * 16 / forecast.iteration.value);
}

}  // namespace
}  // namespace flotilla::why_not_test
