// Documents that are packed into sequences and kept apart: whatever the plan, loss, gradients and updates are those of one device, and
// those of the documents alone.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "train/against_one.hpp"
#include "train/random_tokens.hpp"

namespace flotilla::train {
namespace {

constexpr double tolerance = 1e-5;

/// Random tokens in documents of these lengths, in a folder of this process.
data::Sampler sampler_of(const plan::Plan& plan, const std::string& name, const std::vector<std::int32_t>& documents) {
  static const tests::TemporaryFolder folder;
  const auto base = folder / name;
  if (!std::filesystem::exists(base.string() + ".idx")) tests::write_random_tokens(base, documents);
  return {tests::corpus_of(base), tests::sampling(plan)};
}

/// 20,000 tokens, most documents shorter than a sequence, many of one token.
data::Sampler random_documents(const plan::Plan& plan) {
  std::vector<std::int32_t> lengths;
  std::mt19937 random{8};
  for (int left = 20000; left > 0; left -= lengths.back())
    lengths.push_back(std::min(left, std::max(1, std::uniform_int_distribution<int>{-5, 40}(random))));
  return sampler_of(plan, "random", lengths);
}

std::unique_ptr<Trainer> trainer(const comm::World& crew, const plan::Plan& plan, const data::Sampler& data, bool separate = true) {
  Options options;
  options.poison = true;
  auto runtime = tests::runtime();
  runtime.separate_documents = separate;
  return tests::trainer_on(data, crew, plan, runtime, options);
}

void expect_same(const plan::Plan& plan, double bound) {
  const std::string what = plan.model.name + " " + plan::summary(plan);
  const auto data = random_documents(plan);
  const auto one = trainer(tests::myself(), tests::on_one_rank(plan), data), ours = trainer(tests::everybody(), plan, data);
  for (int step = 0; step < 3; ++step) {
    const auto want = one->step(step), got = ours->step(step);
    EXPECT_NEAR(got.loss, want.loss, bound * want.loss) << what << " step " << step;
    if (step == 0 && plan.precision == Precision::fp32) tests::expect_gradients_of(*one, *ours, 3 * bound, what);
  }
  EXPECT_NEAR(ours->evaluate().loss, one->evaluate().loss, 10 * bound * one->evaluate().loss) << what;
}

TEST(Documents, EveryCombinationOfDegrees) {
  for (const std::string name : {"gpt2-tiny", "llama-tiny", "bloom-tiny"}) {
    const auto model = model::built_in(name);
    tests::for_all_degrees(model, [&](int data, int pipeline, int tensor) {
      auto plan = plan::even_plan(model, 24, 12, Precision::fp32, data, pipeline, tensor, 1);
      plan.shard_optimizer = pipeline == 1;
      plan.sequence_parallel = tensor > 1;
      expect_same(plan, tolerance);
    });
  }
}

/// Chunks, recomputation, split backward passes, degrees that differ.
TEST(Documents, AnyPlan) {
  std::mt19937 random{static_cast<unsigned>(23 + tests::everybody().size())};
  for (int tried = 0; tried < 6 && !HasFailure(); ++tried) {
    auto plan = tests::any_plan_of_all(random);
    if (tried % 3 == 0) plan = tests::in_chunks(plan, random);
    expect_same(plan, 2 * tolerance);
  }
}

TEST(Documents, HalfPrecision) {
  expect_same(plan::even_plan(model::built_in("gpt2-tiny"), 24, 12, Precision::bf16, tests::everybody().size(), 1, 1, 1), 5e-3);
}

/// Of gradients of attention, relative; both trainers have whole tensors.
double apart(const Trainer& a, const Trainer& b) {
  double sum = 0, norm = 0;
  const auto& tensors = a.program().tensors;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (!tensors[t].name.ends_with("attention.qkv.weight")) continue;
    const auto x = a.gradient(static_cast<int>(t)), y = b.gradient(static_cast<int>(t));
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum += std::pow(double{x[i]} - y[i], 2);
      norm += double{y[i]} * y[i];
    }
  }
  return std::sqrt(sum / norm);
}

/// Documents of half a sequence, of which one begins where a sequence does: packed by two, they are what sequences of half the length are.
/// The file holds the sequences of one step, so that every step has all of them.
TEST(Documents, PackedAreAsAlone) {
  const int ranks = tests::everybody().size();
  for (const auto& name : tests::families({"gpt2-tiny", "llama-tiny", "gpt-neo-tiny", "bloom-tiny"})) {
    const auto model = model::built_in(name);
    const auto packed = plan::even_plan(model, 24, 12, Precision::fp32, ranks % 2 == 0 ? ranks / 2 : ranks, ranks % 2 == 0 ? 2 : 1, 1, 2),
               halves = plan::even_plan(model, 12, 24, Precision::fp32, 1, 1, 1, 4);
    std::vector<std::int32_t> documents(24, 12);
    documents.push_back(1);
    const auto ours = trainer(tests::everybody(), packed, sampler_of(packed, "halves", documents)),
               alone = trainer(tests::myself(), halves, sampler_of(halves, "halves", documents), false),
               joined = trainer(tests::myself(), tests::on_one_rank(packed), sampler_of(packed, "halves", documents), false);
    joined->step(0);
    for (int step = 0; step < 3; ++step) {
      const auto want = alone->step(step), got = ours->step(step);
      EXPECT_NEAR(got.loss, want.loss, tolerance * want.loss) << name << " step " << step;
      if (step == 0) {
        tests::expect_gradients_of(*alone, *ours, 3 * tolerance, name);
        EXPECT_GT(apart(*joined, *alone), 1e-2) << name << ": documents make no difference";
      }
    }
    const auto want = alone->evaluate(), got = ours->evaluate();
    EXPECT_EQ(got.tokens, want.tokens);
    EXPECT_NEAR(got.loss, want.loss, 10 * tolerance * want.loss) << name;
  }
}

/// As many as there are microbatches in flight; a stage of the head alone has no use for them. Where they are not asked for, programs are
/// as they were.
TEST(Documents, TakeAnIntForEachTokenInFlight) {
  const auto plan = plan::even_plan(model::built_in("gpt2-tiny"), 24, 16, Precision::fp32, 1, 4, 1, 2);
  ASSERT_EQ(plan.stages.back().last_layer - plan.stages.back().first_layer, 1);
  auto runtime = tests::runtime();
  const auto joined = program::lower(plan, runtime);
  runtime.separate_documents = true;
  const auto separate = program::lower(plan, runtime);
  for (std::size_t c = 0; c < separate.classes.size(); ++c) {
    const auto& buffers = separate.classes[c].buffers;
    const auto starts = std::ranges::find(buffers, "document starts", &program::Buffer::name);
    ASSERT_EQ(starts == buffers.end(), separate.classes[c].stage == 3);
    if (starts == buffers.end()) continue;
    EXPECT_EQ(starts->size, Bytes{2 * 24 * 4});
    EXPECT_EQ(starts->copies, 4 - separate.classes[c].stage) << "1F1B";
    EXPECT_EQ(std::ranges::count(joined.classes[c].buffers, "document starts", &program::Buffer::name), 0);
    EXPECT_GE(separate.classes[c].arena, joined.classes[c].arena);
  }
}

}  // namespace
}  // namespace flotilla::train
