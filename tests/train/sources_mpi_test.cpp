// Losses by source of the data, and the digest of a step's sequences: the same under any plan.
#include <gtest/gtest.h>

#include "flotilla/base/text.hpp"
#include "train/against_one.hpp"
#include "train/random_tokens.hpp"

namespace flotilla::train {
namespace {

constexpr double closeness = 1e-5;
constexpr std::int32_t tokens_of_a_file = 9000;

/// A file of random tokens in a folder of this process; `counts`: whether its tokens do.
data::Corpus corpus(const std::string& name, unsigned seed, bool counts) {
  static const tests::TemporaryFolder folder;
  const auto base = folder / text(name, counts ? "-counts" : "-not");
  if (!std::filesystem::exists(base.string() + ".mask")) {
    tests::write_random_tokens(base, std::vector{tokens_of_a_file}, seed);
    tests::write_mask(base, tokens_of_a_file, [&](std::int64_t) { return counts; });
  }
  return tests::corpus_of(base);
}

/// Three sources, of which only `counted` counts; -1: all of them.
data::Sampler mixture(const plan::Plan& plan, int counted = -1) {
  std::vector<data::Source> sources;
  for (int s = 0; s < 3; ++s)
    sources.push_back({.name = text("source-", s),
                       .corpus = corpus(text("source-", s), static_cast<unsigned>(s), counted < 0 || counted == s),
                       .weight = 3.0 - s});
  return {std::move(sources), tests::sampling(plan)};
}

std::unique_ptr<Trainer> trainer_of(const comm::World& crew, const plan::Plan& plan, const data::Sampler& data, int sources) {
  auto runtime = tests::runtime();
  runtime.sources = sources;
  return tests::trainer_on(data, crew, plan, runtime);
}

std::uint64_t digest_of_step(const data::Sampler& data, const plan::Plan& plan, int step) {
  std::uint64_t sum = 0;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(plan.length) + 1);
  for (int index = 0; index < plan.global_batch; ++index) {
    data.read(data.locate(step, index), tokens);
    sum += data::digest_of(index, tokens);
  }
  return sum;
}

/// Against one rank that trains on what the plan does, but is told of one source after the other that it alone counts.
void expect_sources(const plan::Plan& plan, double bound) {
  const std::string what = plan.model.name + " " + plan::summary(plan);
  const auto data = mixture(plan);
  const auto ours = trainer_of(tests::everybody(), plan, data, 3);
  const auto together = trainer_of(tests::everybody(), plan, data, 0);
  const auto alone = tests::on_one_rank(plan);
  const auto first = ours->step(0);
  ASSERT_EQ(first.sources.size(), 3u);
  for (int s = 0; s < 3; ++s) {
    const auto want = trainer_of(tests::myself(), alone, mixture(plan, s), 0)->step(0);
    const auto& got = first.sources[static_cast<std::size_t>(s)];
    EXPECT_EQ(got.tokens, want.counted_tokens) << what;
    EXPECT_NEAR(got.mean(), want.loss, bound * want.loss) << what << " source " << s;
  }
  for (int step = 0; step < 3; ++step) {
    const auto apart = step == 0 ? first : ours->step(step), joined = together->step(step);
    EXPECT_NEAR(apart.loss, joined.loss, bound * joined.loss) << what;
    EXPECT_EQ(apart.counted_tokens, joined.counted_tokens) << what;
    EXPECT_TRUE(joined.sources.empty());
    EXPECT_EQ(apart.digest, digest_of_step(data, plan, step)) << what << " step " << step;
    EXPECT_EQ(joined.digest, apart.digest) << what;
  }
  EXPECT_NEAR(ours->evaluate(1).mean(), together->evaluate(1).mean(), 10 * bound * together->evaluate(1).mean())
      << "its losses are not mixed up";
}

TEST(Sources, EveryCombinationOfDegrees) {
  const auto model = model::built_in("llama-tiny");
  tests::for_all_degrees(model, [&](int data, int pipeline, int tensor) {
    expect_sources(plan::even_plan(model, 24, 12, Precision::fp32, data, pipeline, tensor, data == 1 ? 4 : 2), closeness);
  });
}

TEST(Sources, AnyPlan) {
  std::mt19937 random{static_cast<unsigned>(23 + tests::everybody().size())};
  expect_sources(tests::in_chunks(tests::any_plan_of_all(random), random), 2 * closeness);
}

/// Of a step that differs in one token, or in which two sequences have changed places.
TEST(Sources, TheDigestTellsStepsApart) {
  std::vector<std::int32_t> one{1, 2, 3, 4}, other{5, 6, 7, 8};
  const auto digest = data::digest_of(0, one) + data::digest_of(1, other);
  EXPECT_NE(digest, data::digest_of(1, one) + data::digest_of(0, other));
  one[2] = ~one[2];
  EXPECT_NE(digest, data::digest_of(0, one) + data::digest_of(1, other)) << "a token that does not count";
  EXPECT_EQ(data::digest_of(3, std::vector<std::int32_t>{7}), 0xe880a903bcff6547u) << "docs/formats/run-directory.md says how";
}

}  // namespace
}  // namespace flotilla::train
