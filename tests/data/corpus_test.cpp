#include "flotilla/data/corpus.hpp"

#include "data/token_files.hpp"
#include "flotilla/data/sampler.hpp"

namespace flotilla::data {
namespace {

using namespace testing;

TEST(Corpus, SplitsTheTailOfEveryFile) {
  const TemporaryFolder folder;
  const auto a = write(folder / "a.txt", std::string(1000, 'a')), b = write(folder / "b.txt", std::string(101, 'b'));
  const auto corpora = open_corpora({{a, b}, {}, Format::automatic, 0.1});
  ASSERT_EQ(corpora.training.sections().size(), 2u);
  ASSERT_EQ(corpora.validation.sections().size(), 2u);
  EXPECT_EQ(corpora.training.tokens(), 900 + 91);
  EXPECT_EQ(corpora.validation.tokens(), 100 + 10);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto &training = corpora.training.sections()[i], &validation = corpora.validation.sections()[i];
    EXPECT_EQ(training.first, 0);
    EXPECT_EQ(training.last, validation.first);
    EXPECT_EQ(validation.last, validation.file->size());
  }
}

TEST(Corpus, TrainingNeverReadsAValidationToken) {
  const TemporaryFolder folder;
  const auto path = write(folder / "a.txt", std::string(900, 't') + std::string(100, 'v'));
  const auto corpora = open_corpora({{path}, {}, Format::automatic, 0.1});
  const auto expect_only = [](const Corpus& corpus, char expected) {
    const Sampler sampler{corpus, {7, 9, 1, 256}};
    std::vector<std::int32_t> tokens(10);
    for (std::int64_t step = 0; step < 500; ++step) {
      sampler.read(sampler.locate(step, 0), tokens);
      for (const auto token : tokens) ASSERT_EQ(token, expected);
    }
  };
  expect_only(corpora.training, 't');
  expect_only(corpora.validation, 'v');
}

TEST(Corpus, TakesOwnValidationFilesWhole) {
  const TemporaryFolder folder;
  const auto a = write(folder / "a.txt", std::string(1000, 'a')), b = write(folder / "b.txt", std::string(50, 'b'));
  const auto corpora = open_corpora({{a}, {b}, Format::automatic, 0.5});
  EXPECT_EQ(corpora.training.tokens(), 1000);
  EXPECT_EQ(corpora.validation.tokens(), 50);
}

TEST(Corpus, HasNoValidationWithoutAFraction) {
  const TemporaryFolder folder;
  const auto a = write(folder / "a.txt", std::string(1000, 'a'));
  EXPECT_TRUE(open_corpora({{a}, {}, Format::automatic, 0}).validation.empty());
  EXPECT_TRUE(open_corpora({{a}, {}, Format::automatic, 0.0001}).validation.empty());
}

TEST(Corpus, RefusesBadOptionsAndBrokenFiles) {
  const TemporaryFolder folder;
  const auto a = write(folder / "a.txt", std::string(1000, 'a'));
  expect_contains(refusal([] { open_corpora({}); }), "at least one token file");
  for (const double fraction : {-0.1, 1.0, 7.0, std::numeric_limits<double>::quiet_NaN()}) {
    expect_contains(refusal([&] { open_corpora({{a}, {}, Format::automatic, fraction}); }), "validation fraction");
  }
  tests::expect_absent([&] { open_corpora({{a, folder / "missing.txt"}, {}, Format::automatic, 0}); }, "missing.txt");
  tests::expect_absent([&] { open_corpora({{a}, {folder / "missing.txt"}, Format::automatic, 0}); }, "missing.txt");
}

TEST(Corpus, ScanFindsABadTokenInItsOwnHalfOnly) {
  const TemporaryFolder folder;
  const auto path = write(folder / "a.txt", std::string(950, 'a') + "\xff" + std::string(49, 'a'));
  const auto corpora = open_corpora({{path}, {}, Format::automatic, 0.1});
  EXPECT_NO_THROW(corpora.training.scan(128));
  expect_contains(refusal([&] { corpora.validation.scan(128); }), path.string() + ": byte 950: token 255");
}

TEST(Corpus, OpensMoreFilesThanThereAreDescriptors) {
  const TemporaryFolder folder;
  const auto a = write(folder / "a.txt", std::string(100, 'a'));
  EXPECT_EQ(open_corpora({std::vector<std::filesystem::path>(3000, a), {}, Format::text, 0}).training.tokens(), 300000);
}

}  // namespace
}  // namespace flotilla::data
