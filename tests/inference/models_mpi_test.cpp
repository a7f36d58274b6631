// Models of Hugging Face, with the weights that PyTorch has written (tests/reference/README.md): scores and next tokens are PyTorch's.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "flotilla/inference/evaluate.hpp"
#include "flotilla/inference/generate.hpp"
#include "flotilla/mpi/session.hpp"
#include "support/refusal.hpp"
#include "support/waiting.hpp"
#include "weights/folder.hpp"

namespace flotilla::inference {
namespace {

constexpr Seconds patience = flotilla::tests::hang_bound();
constexpr int length = tests::ReferenceNumbers::length, sequences = tests::ReferenceNumbers::sequences;

class ReferenceModel : public ::testing::TestWithParam<const char*> {
 protected:
  static const comm::World& world() {
    static mpi::Session session;
    static const comm::World all{session.world(), patience};
    return all;
  }

  LoadedModel load(const PassShape& shape, int tensor_parallel = 1) const {
    ModelLoadOptions options;
    options.tensor_parallel = tensor_parallel;
    options.threads = 1;
    options.deadline = patience;
    return {world(), find_subject(folder_.path()), shape, options};
  }

  /// PyTorch's probabilities of what follows token `position` of a sequence, as logarithms.
  std::vector<double> log_probabilities(int sequence, int position) const {
    const auto width = static_cast<std::ptrdiff_t>(numbers_.model.vocabulary);
    const auto begin = numbers_.logits.begin() + (sequence * length + position) * width;
    std::vector<double> row(begin, begin + width);
    const double most = *std::ranges::max_element(row);
    const double sum = std::accumulate(row.begin(), row.end(), 0.0, [&](double all, double logit) { return all + std::exp(logit - most); });
    for (double& logit : row) logit -= most + std::log(sum);
    return row;
  }
  std::vector<std::int32_t> sequence(int number) const {
    return {tokens_.begin() + number * length, tokens_.begin() + (number + 1) * length + 1};
  }

  const tests::ReferenceNumbers numbers_ = tests::reference_numbers(GetParam());
  const std::vector<std::uint16_t> tokens_ = tests::reference_tokens(numbers_.model);
  const tests::ModelFolder folder_{GetParam()};
};

TEST_P(ReferenceModel, HasPyTorchsLossOnAFile) {
  const auto file = folder_ / "tokens.u16";
  std::ofstream{file, std::ios::binary}.write(reinterpret_cast<const char*>(tokens_.data()),
                                              static_cast<std::streamsize>(2 * tokens_.size()));
  Codec codec{{}, numbers_.model.vocabulary};
  std::vector<Text> texts;
  for (int i = 0; i < 2; ++i) texts.push_back(Text::open(file, data::Format::raw_uint16, codec));
  for (const int tensor : {1, 2}) {
    if (world().size() % tensor != 0) continue;
    auto model = load({{length}, 0}, tensor);
    const auto scores = evaluate(model, texts, codec);
    ASSERT_EQ(scores.size(), 3u);
    for (const auto& score : scores) EXPECT_NEAR(score.loss(), numbers_.steps[0].loss, tests::reference_tolerance * numbers_.steps[0].loss);
    EXPECT_EQ(scores[0].log_probability, scores[1].log_probability);
    EXPECT_EQ(scores[2].tokens, 2 * sequences * length);
    EXPECT_FALSE(scores[2].bytes);
  }
}

/// Packed documents are scored as files of one document each, of which each ends with the first token of the next: what is predicted last.
TEST_P(ReferenceModel, ScoresDocumentsThatAreKeptApartAsIfEachWereAFile) {
  constexpr std::uint16_t end = 0;
  std::vector<std::vector<std::uint16_t>> documents;
  for (int window = 0; window < 3; ++window)
    for (const int size : {3 + window, length - 3 - window}) {
      std::vector<std::uint16_t> document;
      for (int i = 0; i < size - 1; ++i)
        document.push_back(static_cast<std::uint16_t>(1 + tokens_[document.size() + documents.size()] % (numbers_.model.vocabulary - 1)));
      document.push_back(end);
      documents.push_back(document);
    }
  Codec codec{{}, numbers_.model.vocabulary};
  const auto text_of = [&](const std::string& name, const std::vector<std::uint16_t>& tokens) {
    std::ofstream{folder_ / name, std::ios::binary}.write(reinterpret_cast<const char*>(tokens.data()),
                                                          static_cast<std::streamsize>(2 * tokens.size()));
    return Text::open(folder_ / name, data::Format::raw_uint16, codec);
  };
  std::vector<std::uint16_t> packed;
  std::vector<Text> alone, together;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    auto with_next = documents[i];
    if (i + 1 < documents.size()) with_next.push_back(documents[i + 1].front());
    alone.push_back(text_of("document-" + std::to_string(i), with_next));
    packed.insert(packed.end(), documents[i].begin(), documents[i].end());
  }
  together.push_back(text_of("packed", packed));
  for (const int tensor : {1, 2}) {
    if (world().size() % tensor != 0) continue;
    auto joined = load({{length}, 0}, tensor), separate = load({{length}, 0, 0, true}, tensor);
    const auto expected = evaluate(joined, alone, codec).back(), found = evaluate(separate, together, codec, {}, end).front();
    EXPECT_EQ(found.tokens, expected.tokens);
    EXPECT_NEAR(found.log_probability, expected.log_probability, tests::reference_tolerance * std::abs(expected.log_probability));
    const auto mixed = evaluate(joined, together, codec).front();
    EXPECT_GT(std::abs(mixed.log_probability - expected.log_probability),
              20 * tests::reference_tolerance * std::abs(expected.log_probability))
        << "it matters";
  }
}

TEST_P(ReferenceModel, HasPyTorchsLikelihoodsOfContinuations) {
  std::vector<Continuation> list;
  std::vector<double> expected;
  std::vector<bool> greedy;
  for (int s = 0; s < sequences; ++s)
    for (const int context : {1, 4, 9}) {
      const auto all = sequence(s);
      list.push_back({{all.begin(), all.begin() + context}, {all.begin() + context, all.end()}});
      if (context == 9) {  // the likeliest token in place of the text's
        const auto row = log_probabilities(s, context - 1);
        list.back().continuation = {static_cast<std::int32_t>(std::ranges::max_element(row) - row.begin())};
      }
      double sum = 0;
      bool likeliest = true;
      for (std::size_t i = 0; i < list.back().continuation.size(); ++i) {
        const auto row = log_probabilities(s, context - 1 + static_cast<int>(i));
        const auto token = static_cast<std::size_t>(list.back().continuation[i]);
        sum += row[token];
        likeliest = likeliest && row[token] == *std::ranges::max_element(row);
      }
      expected.push_back(sum);
      greedy.push_back(likeliest);
    }
  auto model = load({{length_for(list, numbers_.model.positions)}, 0});
  const auto scores = evaluate(model, list);
  ASSERT_EQ(scores.size(), expected.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    EXPECT_NEAR(scores[i].log_likelihood, expected[i], tests::reference_tolerance * std::abs(expected[i])) << i;
    EXPECT_EQ(scores[i].is_greedy, greedy[i]) << i;
  }
}

/// Three sequences, whatever the ranks: as many as there are, but for what does not divide evenly.
TEST_P(ReferenceModel, MakesNoLargerPassesThanThereIsToRead) {
  std::vector<Continuation> list;
  for (int s = 0; s < 3; ++s) {
    const auto all = sequence(s % sequences);
    list.push_back({{all.begin(), all.begin() + 4}, {all.begin() + 4, all.end()}});
  }
  const int room = length_for(list, numbers_.model.positions);
  auto small = load({{room}, 0, std::ssize(list)}), large = load({{room}, 0});
  EXPECT_GE(small.sequences(), 3);
  EXPECT_LT(small.sequences(), 3 + world().size());
  EXPECT_GT(large.sequences(), 3 + world().size());
  const auto expected = evaluate(large, list), found = evaluate(small, list);
  for (std::size_t i = 0; i < list.size(); ++i)
    EXPECT_NEAR(found.at(i).log_likelihood, expected.at(i).log_likelihood, 1e-5 * std::abs(expected[i].log_likelihood));
}

/// Prompts of every length, so that blocks and single tokens are read; the next token is the likeliest of PyTorch's logits.
TEST_P(ReferenceModel, GoesOnWithPyTorchsLikeliestToken) {
  const int tensor = world().size() == 4 ? 2 : 1;
  if (world().size() / tensor > numbers_.model.layers()) GTEST_SKIP() << "more stages than layers";
  for (int s = 0; s < sequences; ++s)
    for (const int prompt : {1, 5, 10}) {
      auto model = load(growing_text(prompt + 1), tensor);
      const auto all = sequence(s);
      const auto row = log_probabilities(s, prompt - 1);
      const auto likeliest = static_cast<std::int32_t>(std::ranges::max_element(row) - row.begin());
      EXPECT_EQ(generate(model, std::span{all}.first(static_cast<std::size_t>(prompt)), {.tokens = 1}), (std::vector{likeliest}))
          << s << prompt;
    }
}

/// What it says, read at once, is what it finds likeliest at every place.
TEST_P(ReferenceModel, FindsWhatItSaysLikeliest) {
  const int room = std::min(24, numbers_.model.positions), prompt = 4;
  std::vector<Continuation> said(1);
  const auto all = sequence(1);
  said[0].context.assign(all.begin(), all.begin() + prompt);
  {
    auto model = load(growing_text(room));
    std::vector<std::int32_t> taken;
    said[0].continuation = generate(model, said[0].context, {.tokens = room - prompt}, [&](std::int32_t token) {
      taken.push_back(token);
      return true;
    });
    EXPECT_EQ(taken, said[0].continuation);
    ASSERT_EQ(std::ssize(taken), room - prompt);
  }
  {
    auto model = load(growing_text(room));
    const auto stop = said[0].continuation[3];
    const auto end = std::ranges::find(said[0].continuation, stop);
    EXPECT_EQ(generate(model, said[0].context, {.tokens = room - prompt, .stops = {stop}}),
              (std::vector(said[0].continuation.begin(), end)));
  }
  auto model = load({{length_for(said, numbers_.model.positions)}, 0});
  EXPECT_TRUE(evaluate(model, said).at(0).is_greedy);
}

INSTANTIATE_TEST_SUITE_P(Models, ReferenceModel, ::testing::ValuesIn(tests::reference_models));

TEST(Subject, IsARunACheckpointOrAModel) {
  const tests::TemporaryFolder empty;
  tests::expect_refused([&] { find_subject(empty.path()); }, empty.path().string(), "config.json");
  const tests::ModelFolder model{"gpt2"};
  EXPECT_FALSE(find_subject(model.path()).is_checkpoint);
  EXPECT_TRUE(find_subject(model.path()).tokenizer.empty());
}

}  // namespace
}  // namespace flotilla::inference
