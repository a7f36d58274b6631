#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "cluster_fixture.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/simulate/forecaster.hpp"
#include "flotilla/simulate/profile_cost.hpp"
#include "program/random_plan.hpp"

// What must hold of every forecast, over random plans of small models on made-up clusters.
namespace flotilla::forecast_property_test {
namespace {

using simulate::Activity;
using simulate::Forecast;
using simulate::ProgramForecaster;

constexpr int length = 16;
constexpr Bytes runtime_constant{1 << 20};

struct Case {
  cluster::Profile profile;
  plan::Plan plan;
};

/// Two hosts of different types, some operations measured and some not.
Case random_case(std::mt19937_64& random) {
  auto profile = fixture::uniform_cluster(fixture::between(random, 1, 4), fixture::between(random, 2, 8));
  profile.device_types.push_back(fixture::device_type("fast", 50.0 * fixture::between(random, 1, 5), 20));
  for (auto& device : profile.devices)
    if (device.host == "h1") device.type = "fast";
  for (auto& link : profile.links) link.pieces[0].bandwidth.value *= std::pow(10, fixture::between(random, -2, 2));
  static const std::vector<std::string> models{"gpt2-tiny", "gpt2-mini", "opt-tiny", "opt-post-tiny", "gpt-neo-tiny", "llama-tiny"};
  const auto model = model::built_in(models[random() % models.size()]);
  if (random() % 2) fixture::measure(profile, model, length, random() % 2 ? Precision::fp32 : Precision::bf16, {1, 2}, {1, 2, 4});
  const int ranks = static_cast<int>(profile.devices.size());
  auto plan = fixture::random_plan(random, profile, model, length, std::min(ranks, 16));
  if (std::mt19937 cuts{static_cast<unsigned>(plan.global_batch)}; plan.global_batch % 3 == 0) plan = tests::in_chunks(plan, cuts);
  return {std::move(profile), std::move(plan)};
}

Forecast forecast(const Case& c, bool timeline = false) {
  return ProgramForecaster{c.profile, {}, runtime_constant}.forecast(c.plan, timeline);
}

class ForecastProperty : public testing::TestWithParam<int> {
 protected:
  std::mt19937_64 random{static_cast<std::uint64_t>(GetParam())};
  const Case c = random_case(random);
};

TEST_P(ForecastProperty, EveryDeviceAccountsForTheWholeIteration) {
  const Forecast f = forecast(c);
  ASSERT_GT(f.iteration.value, 0);
  EXPECT_NEAR(f.breakdown.total() / f.iteration, 1, 1e-9);
  std::size_t ranks = 0;
  for (const auto& kind : f.kinds) {
    EXPECT_NEAR(kind.breakdown.total() / f.iteration, 1, 1e-9);
    for (Seconds s : kind.breakdown.seconds) EXPECT_GE(s.value, 0);
    ranks += kind.ranks.size();
  }
  EXPECT_EQ(static_cast<int>(ranks), plan::rank_count(c.plan));
}

TEST_P(ForecastProperty, NeverBelowTheWorkOfAnyRank) {
  const Forecast f = forecast(c);
  const simulate::ProfileCost cost{c.profile};
  const auto program = program::lower(c.plan, fixture::placed(c.profile));
  for (const auto& kind : f.kinds) {
    const auto& about = program.classes[static_cast<std::size_t>(kind.rank_class)];
    double work = 0;
    for (const auto& issued : program::expand(program, kind.ranks.front())) {
      const auto& instruction = about.instructions[static_cast<std::size_t>(issued.instruction)];
      if (instruction.as<program::LayerOperation>() != nullptr)
        work += cost.compute(program, about, instruction, about.sequences(issued.microbatch)).time.value;
    }
    EXPECT_GE(f.iteration.value, work * (1 - 1e-12));
    const double counted =
        (kind.breakdown[Activity::forward] + kind.breakdown[Activity::backward] + kind.breakdown[Activity::recompute]).value;
    EXPECT_GE(counted, work * (1 - 1e-9));
  }
}

TEST_P(ForecastProperty, SpansOfASerialQueueDoNotOverlap) {
  const Forecast f = forecast(c, true);
  std::set<Rank> seen;
  for (std::size_t i = 0; i < f.timeline.size(); ++i) {
    const auto& span = f.timeline[i];
    seen.insert(span.rank);
    EXPECT_LE(span.start, span.end);
    EXPECT_LE(span.end, f.iteration);
    const bool serial = program::runs_one_at_a_time(span.queue);
    if (i > 0 && serial && f.timeline[i - 1].rank == span.rank && f.timeline[i - 1].queue == span.queue) {
      EXPECT_LE(f.timeline[i - 1].end, span.start) << f.timeline[i - 1].name << ", " << span.name;
    }
  }
  EXPECT_EQ(seen.size(), f.kinds.size());
  std::size_t all = 0, seen_on_all = 0;
  for (const simulate::RankKind& kind : f.kinds)
    seen_on_all += kind.ranks.size() * static_cast<std::size_t>(std::ranges::count(f.timeline, kind.ranks.front(), &simulate::Span::rank));
  const auto program = program::lower(c.plan, fixture::placed(c.profile));
  for (std::size_t r = 0; r < program.ranks.size(); ++r) all += program::expand(program, Rank{static_cast<int>(r)}).size();
  EXPECT_EQ(seen_on_all, all);
}

TEST_P(ForecastProperty, SameInputSameForecast) {
  const ProgramForecaster forecaster{c.profile, {}, runtime_constant};
  EXPECT_EQ(forecaster.forecast(c.plan, true), forecaster.forecast(c.plan, true));
  EXPECT_EQ(forecaster.forecast(c.plan, true), forecast(c, true));
}

TEST_P(ForecastProperty, RememberedCostsOfTypesChangeNothing) {
  const auto types = simulate::type_costs_of(c.profile);
  const cluster::Profile same = c.profile;
  for (const auto* profile : {&c.profile, &same, &c.profile})
    EXPECT_EQ((ProgramForecaster{*profile, {}, runtime_constant, types}.forecast(c.plan, true)), forecast(c, true));
}

TEST_P(ForecastProperty, MemoryBoundsAreNeverAboveTheForecast) {
  const ProgramForecaster forecaster{c.profile, {}, runtime_constant};
  const Forecast f = forecaster.forecast(c.plan);
  for (const auto& kind : f.kinds) {
    const auto& stage = c.plan.stages[static_cast<std::size_t>(kind.stage)];
    const auto& replica = stage.replicas.front();
    const model::LayerShape shape{replica.quanta * c.plan.quantum,
                                  length,
                                  replica.tensor_parallel,
                                  0,
                                  c.plan.precision,
                                  c.plan.sequence_parallel && replica.tensor_parallel > 1};
    const int depth = c.plan.schedule == plan::ScheduleKind::gpipe ? c.plan.global_batch : plan::own_stages(c.plan) - kind.stage;
    int least = c.plan.global_batch;  // microbatches of the replica with the fewest
    for (const auto& r : stage.replicas) least = std::min(least, r.microbatches(c.plan.quantum));
    const Bytes memory =
        forecaster.memory_bound(c.plan.model, stage.first_layer, stage.last_layer, shape, stage.recompute, std::min(depth, least));
    EXPECT_LE(memory, kind.memory.peak()) << plan::summary(c.plan) << " stage " << kind.stage;
  }
}

TEST_P(ForecastProperty, MemoryIsTheArena) {
  const Forecast f = forecast(c);
  const auto program = program::lower(c.plan, fixture::placed(c.profile));
  for (const auto& kind : f.kinds) {
    const auto& about = program.classes[static_cast<std::size_t>(kind.rank_class)];
    EXPECT_EQ(kind.memory.arena, about.arena);
    EXPECT_EQ(kind.memory.peak(), about.arena + runtime_constant);
    Bytes sum;
    for (Bytes b : kind.memory.categories) sum += b;
    EXPECT_EQ(sum, about.arena);
    EXPECT_LE(kind.memory.peak(), f.peak_memory());
  }
}

TEST_P(ForecastProperty, FasterDeviceOrLinkIsNeverSlower) {
  const Case alone{fixture::without_contention(c.profile), c.plan};  // contention_property_test.cpp tells what sharing does
  const Seconds before = forecast(alone).iteration;
  const double rounding = 1 + 1e-12;
  for (int change = 0; change < 3; ++change) {
    Case faster = alone;
    if (change == 0)
      for (auto& time : faster.profile.operation_times) time.time = time.time * (random() % 2 ? 1.0 : 0.7);
    if (change == 1)
      for (auto& type : faster.profile.device_types)
        type.peak_fp32.value *= 1.5, type.peak_bf16.value *= 1.5, type.memory_bandwidth.value *= 1.5;
    if (change == 2)
      for (auto& link : faster.profile.links)
        for (auto& piece : link.pieces) piece.latency = piece.latency * 0.5, piece.bandwidth.value *= 3;
    // A scaled time (ProfileCost) follows the ratio of two rooflines, so uniform changes of a device keep it; changes of single times do
    // too.
    EXPECT_LE(forecast(faster).iteration.value, before.value * rounding) << "change " << change << ": " << plan::summary(c.plan);
  }
}

TEST_P(ForecastProperty, ErrorBarIsARatio) {
  const Forecast f = forecast(c);
  EXPECT_GE(f.relative_error, 0);
  EXPECT_LE(f.relative_error, 0.75);
  EXPECT_GE(f.estimated_share, 0);
  EXPECT_LE(f.estimated_share, 1 + 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Random, ForecastProperty, testing::Range(0, 120));

TEST(Forecast, OneDeviceIsExactArithmetic) {
  auto profile = fixture::uniform_cluster(1, 1);
  const auto model = model::built_in("gpt2-tiny");
  fixture::measure(profile, model, length, Precision::fp32, {1}, {1, 3});
  auto plan = plan::even_plan(model, length, 7, Precision::fp32, 1, 1, 1, 3);  // microbatches of 3, 3 and 1
  plan.stages[0].replicas[0].device_type = "slow";
  const Forecast f = forecast({profile, plan});
  double expected = 0;
  for (int sequences : {3, 3, 1})
    for (int o = 0; o < model::operation_count; ++o) {
      const auto operation = static_cast<model::Operation>(o);
      const bool of_block = operation == model::Operation::attention_forward || operation == model::Operation::mlp_forward ||
                            operation == model::Operation::block_end_forward || operation == model::Operation::mlp_backward ||
                            operation == model::Operation::attention_backward || operation == model::Operation::block_begin_backward;
      const auto time =
          cluster::operation_time(profile, "slow", std::string{model::to_string(operation)}, 1, sequences, length, Precision::fp32);
      expected += (of_block ? model.blocks : 1) * time->value;
    }
  const double tokens = 2 * 4.0 * 7 * (length + 1) / 10e9;
  const double measured = (f.breakdown[Activity::forward] + f.breakdown[Activity::backward]).value;
  EXPECT_NEAR(measured / (expected + tokens), 1, 1e-12);
  EXPECT_NEAR((f.breakdown[Activity::optimizer].value + measured) / f.iteration.value, 1, 1e-12);
  EXPECT_EQ(f.kinds.size(), 1u);
}

TEST(Forecast, PipelineOfEqualStagesHasTheTextbookBubble) {
  // Narayanan et al. 2019: with p stages of equal time and n microbatches the bubble is (p-1)/(n+p-1) of the pipeline's time.
  auto profile = fixture::uniform_cluster(1, 2);
  profile.links[0].pieces[0] = {{0}, {0}, {1e15}};
  auto model = model::built_in("gpt2-tiny");
  for (const std::string operation : {"embedding_forward", "embedding_end_forward", "block_end_forward", "head_forward", "head_loss",
                                      "head_backward", "head_end_backward", "block_begin_backward", "embedding_backward"})
    profile.operation_times.push_back({"slow", operation, 1, 1, length, Precision::fp32, {1e-12}, 0});
  for (const std::string operation : {"attention_forward", "mlp_forward", "mlp_backward", "attention_backward"})
    profile.operation_times.push_back({"slow", operation, 1, 1, length, Precision::fp32, {1}, 0});
  auto plan = plan::even_plan(model, length, 6, Precision::fp32, 1, 2, 1, 1, plan::ScheduleKind::one_f_one_b, {0, 2, 4});
  for (auto& stage : plan.stages) stage.replicas[0].device_type = "slow";
  const Forecast f = forecast({profile, plan});
  EXPECT_NEAR(f.iteration.value, 4.0 * (6 + 2 - 1), 1e-3);
  EXPECT_NEAR(f.breakdown[Activity::bubble] / f.iteration, 1.0 / 7, 1e-3);
}

TEST(Forecast, InterleavingShrinksTheBubbleByTheNumberOfChunks) {
  // Narayanan et al. 2021: with p devices in a row, n microbatches and v chunks the bubble is (p-1)/v microbatches' time on a device.
  constexpr int depth = 4, blocks_each = 4, microbatches = 8;
  auto profile = fixture::uniform_cluster(1, depth);
  profile.links[0].pieces[0] = {{0}, {0}, {1e15}};
  profile.device_types[0].peak_fp32.value = profile.device_types[0].memory_bandwidth.value = 1e30;  // what is not measured takes no time
  auto model = model::built_in("gpt2-tiny");
  model.blocks = depth * blocks_each;
  for (const std::string operation :
       {"embedding_forward", "embedding_end_forward", "mlp_forward", "block_end_forward", "head_forward", "head_loss", "head_backward",
        "head_end_backward", "attention_backward", "block_begin_backward", "embedding_backward"})
    profile.operation_times.push_back({"slow", operation, 1, 1, length, Precision::fp32, {1e-12}, 0});
  profile.operation_times.push_back({"slow", "attention_forward", 1, 1, length, Precision::fp32, {1}, 0});
  profile.operation_times.push_back({"slow", "mlp_backward", 1, 1, length, Precision::fp32, {2}, 0});
  for (const int chunks : {1, 2, 4}) {
    std::vector<int> cuts{0};
    for (int s = 1; s < depth * chunks; ++s) cuts.push_back(1 + s * blocks_each / chunks);
    cuts.push_back(model.layers());
    auto plan =
        plan::even_plan(model, length, microbatches, Precision::fp32, 1, depth * chunks, 1, 1, plan::ScheduleKind::interleaved, cuts);
    plan.chunks = chunks;
    for (std::size_t s = 0; s < plan.stages.size(); ++s) plan.stages[s].replicas = plan.stages[s % depth].replicas;
    for (auto& stage : plan.stages) stage.replicas[0].device_type = "slow";
    const Forecast f = forecast({profile, plan});
    const double pass = 3.0 * blocks_each;
    EXPECT_NEAR(f.iteration.value, pass * microbatches + pass * (depth - 1) / chunks, 1e-3) << chunks;
    EXPECT_NEAR(f.breakdown[Activity::bubble].value, pass * (depth - 1) / chunks, 1e-3) << chunks;
  }
}

TEST(Forecast, BadPlansAndClustersAreNamed) {
  const auto profile = fixture::uniform_cluster(1, 2);
  auto plan = plan::even_plan(model::built_in("gpt2-tiny"), length, 8, Precision::fp32, 4, 1, 1, 2);
  for (auto& replica : plan.stages[0].replicas) replica.device_type = "slow";
  EXPECT_THROW(forecast({profile, plan}), Error);  // ranks 2 and 3 do not exist
  plan.stages[0].replicas.pop_back();
  EXPECT_THROW(forecast({profile, plan}), Error);
}

}  // namespace
}  // namespace flotilla::forecast_property_test
