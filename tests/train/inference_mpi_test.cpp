// Forward passes over weights alone: they say what evaluation says, and passes over a cache of keys and values what one pass over the whole
// text says.
#include "flotilla/train/inference.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "flotilla/base/error.hpp"
#include "flotilla/base/philox.hpp"
#include "train/fixture.hpp"

namespace flotilla::train {
namespace {

constexpr int text_length = 26, block = 16;

/// Small random numbers, the same whatever the layout; norms' weights are near one.
void fill(const checkpoint::LocalState& state) {
  for (const auto& part : state.parts) {
    const auto& tensor = (*state.tensors)[static_cast<std::size_t>(part.tensor)];
    const Philox random{7, static_cast<std::uint64_t>(part.tensor)};
    const float middle = tensor.name.find("norm") != std::string::npos && tensor.name.ends_with(".weight") ? 1.0f : 0.0f;
    for (const auto& box : part.boxes_in(tensor))
      for (std::int64_t o = 0; o < box.outer; ++o)
        for (std::int64_t i = 0; i < box.inner; ++i)
          part.parameters[static_cast<std::size_t>(box.local_offset + o * box.local_stride + i)] =
              middle + 0.3f * (uniform(random(static_cast<std::uint64_t>(box.global_offset + o * box.global_stride + i))[0]) - 0.5f);
  }
}

plan::Plan plan_of(const model::Config& model, int length, Precision precision) {
  const int ranks = tests::everybody().size(), tensor = ranks % 2 == 0 ? 2 : 1;
  return plan::even_plan(model, length, 1, precision, 1, ranks / tensor, tensor, 1);
}

std::unique_ptr<Inference> passes(const model::Config& model, const std::vector<int>& lengths, int cache, Precision precision) {
  std::vector<program::Program> programs;
  for (const int length : lengths) {
    programs.push_back(program::lower_inference(plan_of(model, length, precision), tests::runtime(), 1, cache));
    program::require_valid(programs.back());
  }
  Options options;
  options.deadline = tests::patience;
  options.device = tests::device_of(tests::everybody());
  options.poison = true;
  auto made = std::make_unique<Inference>(tests::everybody(), std::move(programs), cache, options);
  fill(made->state());
  made->adopt();
  return made;
}

std::int32_t token(std::int64_t position, int vocabulary) {
  return static_cast<std::int32_t>((position * position + 3 * position + 5) % vocabulary);
}

/// This rank's columns of the logits of tokens [first, first + count), which one pass reads; nothing where it has none.
std::vector<float> logits_of_pass(Inference& passes, std::size_t program, int first, int count, int vocabulary) {
  std::vector<float> logits;
  ForwardPass pass;
  pass.cached = first;
  pass.read = [&](int, std::span<std::int32_t> tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = i < static_cast<std::size_t>(count) ? token(first + static_cast<std::int64_t>(i), vocabulary) : 0;
  };
  pass.take_logits = [&](const LogitRows& rows) {
    for (std::int64_t row = 0; row < count; ++row) {
      const auto token = rows.of(row);
      logits.insert(logits.end(), token.begin(), token.end());
    }
  };
  passes.run(program, pass);
  return logits;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (static_cast<double>(a[i]) - static_cast<double>(b[i])) * (static_cast<double>(a[i]) - static_cast<double>(b[i]));
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return a.empty() ? 0 : std::sqrt(difference / norm);
}

class Cached : public ::testing::TestWithParam<const char*> {};

/// Products of other shapes sum in another order: a few units in the last place a layer, in units of the precision's spacing.
TEST_P(Cached, PassesSayWhatOnePassSays) {
  const auto model = model::built_in(GetParam());
  for (const auto& [precision, bound] : {std::pair{Precision::fp32, 1e-5}, std::pair{Precision::bf16, 2e-2}}) {
    const auto whole = passes(model, {text_length}, 0, precision);
    const auto expected = logits_of_pass(*whole, 0, 0, text_length, model.vocabulary);
    const auto growing = passes(model, {block, 1}, 64, precision);
    std::vector<float> found;
    const auto read = [&](std::size_t program, int first, int count) {
      const auto logits = logits_of_pass(*growing, program, first, count, model.vocabulary);
      found.insert(found.end(), logits.begin(), logits.end());
    };
    read(0, 0, block);
    read(0, block, 5);  // a block that is not full
    for (int position = block + 5; position < text_length; ++position) read(1, position, 1);
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_LT(distance(found, expected), bound) << to_string(precision);
  }
}

/// A window that ends inside the cache, whose first keys are left out.
TEST(CachedWindow, LeavesOutWhatOnePassLeavesOut) {
  auto model = model::built_in("gpt-neo-tiny");
  model.positions = 256;
  model.windows = {0, 70};
  const int length = 150;
  const auto whole = passes(model, {length}, 0, Precision::fp32);
  const auto expected = logits_of_pass(*whole, 0, 0, length, model.vocabulary);
  const auto growing = passes(model, {block, 1}, 150, Precision::fp32);
  std::vector<float> found;
  for (int position = 0; position < length;) {
    const bool alone = position % 64 > 40 || position + block > length;
    const auto logits = logits_of_pass(*growing, alone ? 1 : 0, position, alone ? 1 : block, model.vocabulary);
    found.insert(found.end(), logits.begin(), logits.end());
    position += alone ? 1 : block;
  }
  ASSERT_EQ(found.size(), expected.size());
  EXPECT_LT(distance(found, expected), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Models, Cached,
                         ::testing::Values("gpt2-tiny", "opt-tiny", "opt-post-tiny", "gpt-neo-tiny", "llama-tiny", "qwen3-tiny",
                                           "pythia-tiny", "bloom-tiny", "gemma2-tiny", "gemma3-tiny"));

/// The same parameters: token by token, scores are the evaluation's loss.
TEST(Scores, AddUpToTheEvaluation) {
  const auto& world = tests::everybody();
  const auto model = model::built_in("opt-tiny");
  const auto plan = plan::even_plan(model, 16, 2 * world.size() + 1, Precision::fp32, world.size(), 1, 1, 2);
  const auto trainer = tests::trainer(world, plan);
  auto program = program::lower_inference(plan, tests::runtime(), plan.global_batch);
  for (const auto& c : program.classes) {
    const auto breakdown = program::arena_breakdown(c);
    for (const auto category : {program::Category::gradients, program::Category::optimizer})
      EXPECT_EQ(breakdown[static_cast<std::size_t>(category)].count, 0);
  }
  Options options;
  options.deadline = tests::patience;
  options.device = tests::device_of(world);
  Inference passes{world, {std::move(program)}, 0, options};
  const auto from = trainer->state(), to = passes.state();
  for (const auto& part : to.parts) {
    const auto same = std::ranges::find_if(from.parts, [&](const auto& p) { return p.tensor == part.tensor && p.piece < 0; });
    std::ranges::copy(same->parameters, part.parameters.begin());
  }
  passes.adopt();
  const auto data = tests::sampler(plan);
  ForwardPass pass;
  double loss = 0;
  pass.read = [&](int sequence, std::span<std::int32_t> tokens) { data.read(data.locate_evaluation(sequence), tokens); };
  pass.take_scores = [&](int, std::span<const compute::TokenScore> scores) {
    for (const auto& score : scores) loss -= score.log_probability;
  };
  passes.run(0, pass);
  double all = 0;
  for (const double theirs : mpi::all_gather(world.control(), loss, tests::patience)) all += theirs;
  const double evaluated = trainer->evaluate().mean();
  EXPECT_NEAR(all / (plan.global_batch * 16.0), evaluated, 1e-12 * evaluated);
}

TEST(Inference, RefusesACacheThatIsTooSmall) {
  const auto model = model::built_in("gpt2-tiny");
  const auto plan = plan::even_plan(model, 16, 1, Precision::fp32, 1, 1, 1, 1);
  EXPECT_THROW(program::lower_inference(plan, tests::runtime(), 1, 8), Error);
  EXPECT_THROW(program::lower_inference(plan::even_plan(model, 16, 2, Precision::fp32, 1, 1, 1, 1), tests::runtime(), 2, 64), Error);
}

}  // namespace
}  // namespace flotilla::train
