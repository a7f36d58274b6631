// From when a rank's instructions ran to figures of the profile, and back: a profile that is wrong on purpose is corrected by the records
// of runs as another profile forecasts them.
#include "run_evidence.hpp"

#include <gtest/gtest.h>

#include "flotilla/plan/bind.hpp"
#include "flotilla/simulate/forecaster.hpp"
#include "simulate/cluster_fixture.hpp"

namespace flotilla::monitor {
namespace {

using cluster::Correction;
using Figure = Correction::Figure;

constexpr int job_ranks = 4, tokens = 256, batch = 16;

/// Two devices on each of two hosts.
cluster::Profile truth() {
  auto profile = fixture::uniform_cluster(2, 2);
  fixture::measure(profile, model::built_in("gpt2-mini"), tokens, Precision::fp32, {1, 2}, {1, 2, 4, 8});
  for (const char* operation : {"adamw", "add"})
    profile.operation_times.push_back({"slow", operation, 1, 1, 1, Precision::fp32, Seconds{2e-3}, 0.02});
  return profile;
}

std::vector<Rank> all_ranks() {
  std::vector<Rank> all;
  for (int r = 0; r < job_ranks; ++r) all.emplace_back(r);
  return all;
}

/// A plan as it runs on devices that are as one profile says, and is forecast by another.
struct RunOf {
  RunOf(plan::Plan p, const cluster::Profile& real, const cluster::Profile& believed)
      : plan{plan::bound(std::move(p), real, job_ranks, "the plan")}, is{real}, believes{believed} {
    runtime = fixture::placed(real);
    program = program::lower(plan, runtime);
  }

  simulate::Forecast forecast(const cluster::Profile& profile) const {
    return simulate::ProgramForecaster{profile, runtime, {}}.forecast(plan, true);
  }

  static std::vector<simulate::Span> spans_of(const simulate::Forecast& forecast, Rank rank) {
    std::vector<simulate::Span> spans;
    for (const auto& kind : forecast.kinds)
      if (std::ranges::binary_search(kind.ranks, rank))
        for (const auto& span : forecast.timeline)
          if (span.rank == kind.ranks.front()) spans.push_back(span);
    return spans;
  }

  std::vector<Correction> wrong() const {
    const auto real = forecast(is), believed = forecast(believes);
    std::vector<std::vector<Evidence>> by_rank;
    for (int r = 0; r < job_ranks; ++r) {
      const RankFigures figures{program, Rank{r}, believes, all_ranks()};
      auto& evidence = by_rank.emplace_back(figures.figures());
      const auto runs = figures.runs();
      const auto took = figures.seconds(spans_of(real, Rank{r})), takes = figures.seconds(spans_of(believed, Rank{r}));
      const auto traffic = figures.traffic(is, all_ranks()), traffic_forecast = figures.traffic(believes, all_ranks());
      for (std::size_t f = 0; f < evidence.size(); ++f) {
        const bool computes = evidence[f].figure.figure == Figure::operation;
        evidence[f].runs = runs[f];
        evidence[f].forecast = computes ? takes[f] : traffic_forecast[f];
        evidence[f].measured.assign(18, computes ? took[f] : traffic[f]);
      }
    }
    return wrong_figures(by_rank, {believed.iteration.value, 0.05}, believes);
  }

  /// Relative errors of the forecast, before and after.
  std::pair<double, double> errors() const {
    const auto real = forecast(is).iteration;
    return {std::abs(forecast(believes).iteration / real - 1),
            std::abs(forecast(cluster::corrected(believes, wrong())).iteration / real - 1)};
  }

  plan::Plan plan;
  const cluster::Profile &is, &believes;
  program::Runtime runtime;
  program::Program program;
};

std::vector<plan::Plan> plans() {
  std::vector<plan::Plan> all;
  const auto model = model::built_in("gpt2-mini");
  for (const auto& [data, pipeline, tensor, microbatch] :
       {std::tuple{4, 1, 1, 2}, {2, 2, 1, 2}, {1, 4, 1, 4}, {2, 1, 2, 4}, {1, 2, 2, 2}, {4, 1, 1, 4}})
    all.push_back(plan::even_plan(model, tokens, batch, Precision::fp32, data, pipeline, tensor, microbatch));
  return all;
}

cluster::Profile with_operations(cluster::Profile profile, double factor) {
  for (auto& time : profile.operation_times) time.time = time.time * factor;
  return profile;
}
cluster::Profile with_links(cluster::Profile profile, double factor) {
  for (auto& link : profile.links)
    for (auto& piece : link.pieces) piece.latency = piece.latency * factor, piece.bandwidth.value /= factor;
  return profile;
}

TEST(RunEvidence, OfARightProfileNothingIsWrong) {
  const auto is = truth();
  for (const auto& plan : plans()) EXPECT_TRUE((RunOf{plan, is, is}.wrong().empty())) << plan::summary(plan);
}

TEST(RunEvidence, OperationsThatTakeLongerAreFoundAndTheForecastIsRightAgain) {
  const auto is = truth(), believed = with_operations(is, 1 / 1.3);
  for (const auto& plan : plans()) {
    const RunOf run{plan, is, believed};
    const auto wrong = run.wrong();
    ASSERT_FALSE(wrong.empty()) << plan::summary(plan);
    for (const auto& c : wrong) {
      EXPECT_EQ(c.figure, Figure::operation) << cluster::name_of(c);
      EXPECT_NEAR(c.factor(), 1.3, 0.01) << cluster::name_of(c);
    }
    const auto [before, after] = run.errors();
    EXPECT_GT(before, 0.1) << plan::summary(plan);
    EXPECT_LT(after, 0.02) << plan::summary(plan);
  }
}

TEST(RunEvidence, SlowerLinksAreFoundByMessagesAndBySums) {
  const auto is = with_links(truth(), 2), believed = truth();
  for (const auto& plan : plans()) {
    const RunOf run{plan, is, believed};
    for (const auto& c : run.wrong()) {
      EXPECT_NE(c.figure, Figure::operation) << cluster::name_of(c);
      EXPECT_GT(c.factor(), 1.5) << cluster::name_of(c) << ", " << plan::summary(plan);
    }
    const auto [before, after] = run.errors();
    EXPECT_LE(after, before) << plan::summary(plan);
    // With tensor and pipeline parallelism together messages go in pieces, which are too small to prove anything here.
    EXPECT_LT(after, std::max(0.03, 0.7 * before)) << plan::summary(plan);
  }
}

TEST(RunEvidence, AnotherPlanIsForecastBetterToo) {
  const auto is = with_links(with_operations(truth(), 1.4), 1.8), believed = truth();
  const auto all = plans();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto corrected = cluster::corrected(believed, RunOf{all[i], is, believed}.wrong());
    for (const auto& other : all) {
      const RunOf run{other, is, believed};
      const double real = run.forecast(is).iteration.value;
      EXPECT_LT(std::abs(run.forecast(corrected).iteration.value / real - 1), std::abs(run.forecast(believed).iteration.value / real - 1))
          << plan::summary(other) << " by what " << plan::summary(all[i]) << " measured";
    }
  }
}

TEST(RunEvidence, ASlowDeviceIsNotItsTypesFigure) {
  const auto is = truth();
  const auto plan = plans().front();
  const RunOf run{plan, is, is};
  const auto forecast = run.forecast(is);
  std::vector<std::vector<Evidence>> by_rank;
  for (int r = 0; r < job_ranks; ++r) {
    const RankFigures figures{run.program, Rank{r}, is, all_ranks()};
    auto& evidence = by_rank.emplace_back(figures.figures());
    const auto takes = figures.seconds(RunOf::spans_of(forecast, Rank{r})), runs = figures.runs();
    for (std::size_t f = 0; f < evidence.size(); ++f) {
      evidence[f].runs = runs[f], evidence[f].forecast = takes[f];
      evidence[f].measured.assign(18, takes[f] * (r == 2 ? 5 : 1));
    }
  }
  EXPECT_TRUE(wrong_figures(by_rank, {forecast.iteration.value, 0.05}, is).empty());
}

TEST(RunEvidence, AMomentInWhichTheRankDidNotRunDoesNotCount) {
  const auto is = truth();
  const RunOf run{plans().front(), is, is};
  const RankFigures figures{run.program, Rank{0}, is, all_ranks()};
  const auto& instructions = run.program.classes.at(static_cast<std::size_t>(run.program.ranks[0].rank_class)).instructions;
  int forward = -1;
  for (std::size_t i = 0; i < instructions.size(); ++i)
    if (const auto* work = instructions[i].as<program::LayerOperation>();
        work != nullptr && work->operation == model::Operation::mlp_forward)
      forward = static_cast<int>(i);
  ASSERT_GE(forward, 0);
  const std::vector<TimedRun> runs{{forward, 0, 0.1}, {forward, 0, 0.1}, {forward, 0, 9}};
  const auto seconds = figures.seconds(std::span<const TimedRun>{runs});
  EXPECT_NEAR(*std::ranges::max_element(seconds), 0.3, 1e-12);
}

TEST(RunEvidence, SmallMessagesProveNothing) {
  const auto is = truth();
  const auto small = plan::even_plan(model::built_in("gpt2-tiny"), 16, batch, Precision::fp32, 2, 2, 1, 1);
  const RunOf run{small, is, is};
  for (int r = 0; r < job_ranks; ++r) {
    const RankFigures figures{run.program, Rank{r}, is, all_ranks()};
    for (const auto& e : figures.figures()) EXPECT_NE(e.figure.figure, Figure::messages);
  }
}

}  // namespace
}  // namespace flotilla::monitor
