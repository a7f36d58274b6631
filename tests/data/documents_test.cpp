#include <gtest/gtest.h>

#include <random>

#include "flotilla/data/sampler.hpp"
#include "token_files.hpp"

/// Where documents begin within what is read, by the index of a Megatron pair and by a token at their end.
namespace flotilla::data {
namespace {

using namespace testing;
using Starts = std::vector<std::int32_t>;

class DocumentStarts : public ::testing::Test {
 protected:
  std::filesystem::path pair(const std::string& name, const std::vector<std::int64_t>& tokens,
                             const std::vector<std::int32_t>& documents) const {
    const auto bytes = megatron_bytes<std::uint16_t>(tokens, documents, 8);
    write(folder_ / (name + ".idx"), bytes.index);
    return write(folder_ / (name + ".bin"), bytes.tokens);
  }
  static Starts of(const TokenFile& file, std::int64_t first, std::size_t count, std::optional<std::int32_t> end = {}) {
    Starts starts(count, -7);
    file.document_starts(first, starts, end);
    return starts;
  }
  const TemporaryFolder folder_;
};

TEST_F(DocumentStarts, AreThoseOfTheIndex) {
  const auto file = TokenFile::open(pair("a", some_tokens(10, 100), {3, 1, 2, 4}));
  EXPECT_TRUE(file.has_documents());
  EXPECT_EQ(of(file, 0, 10), (Starts{0, 0, 0, 3, 4, 4, 6, 6, 6, 6}));
  EXPECT_EQ(of(file, 2, 4), (Starts{0, 1, 2, 2})) << "of a document that began before, its first token read";
  EXPECT_EQ(of(file, 3, 1), (Starts{0}));
  EXPECT_EQ(of(file, 7, 3), (Starts{0, 0, 0}));
}

TEST_F(DocumentStarts, EmptyDocumentsAreNone) {
  const auto file = TokenFile::open(pair("a", some_tokens(6, 100), {0, 2, 0, 0, 4, 0}));
  EXPECT_EQ(of(file, 0, 6), (Starts{0, 0, 2, 2, 2, 2}));
}

TEST_F(DocumentStarts, AreBehindATokenThatEndsThem) {
  const auto text = TokenFile::open(write(folder_ / "a.txt", "ab.c..de."), Format::text);
  EXPECT_FALSE(text.has_documents());
  EXPECT_EQ(of(text, 0, 9, '.'), (Starts{0, 0, 0, 3, 3, 5, 6, 6, 6}));
  EXPECT_EQ(of(text, 2, 3, '.'), (Starts{0, 1, 1}));
  EXPECT_EQ(of(text, 0, 9), Starts(9, 0));
}

TEST_F(DocumentStarts, AreBothWhereBothAreThere) {
  const auto file = TokenFile::open(pair("a", {5, 9, 5, 5, 9, 5}, {3, 3}));
  EXPECT_EQ(of(file, 0, 6, 9), (Starts{0, 0, 2, 3, 3, 5}));
}

/// Against a list of the ends, whatever is read.
TEST_F(DocumentStarts, OfManyDocuments) {
  std::mt19937 random{4};
  std::vector<std::int32_t> documents;
  Starts begins;
  for (int i = 0; i < 300; ++i) {
    documents.push_back(std::uniform_int_distribution<int>{0, 9}(random));
    for (int k = 0; k < documents.back(); ++k) begins.push_back(static_cast<std::int32_t>(begins.size()) - k);
  }
  const auto file = TokenFile::open(pair("a", some_tokens(begins.size(), 100), documents));
  for (int tried = 0; tried < 200; ++tried) {
    const auto first = std::uniform_int_distribution<std::size_t>{0, begins.size() - 1}(random);
    const auto count = std::uniform_int_distribution<std::size_t>{1, begins.size() - first}(random);
    Starts expected;
    for (std::size_t i = 0; i < count; ++i) expected.push_back(std::max(0, begins[first + i] - static_cast<std::int32_t>(first)));
    ASSERT_EQ(of(file, static_cast<std::int64_t>(first), count), expected);
  }
}

TEST_F(DocumentStarts, OfWhatTheSamplerReads) {
  CorpusOptions files;
  files.training = {pair("a", some_tokens(41, 100), {10, 31})};
  files.validation_fraction = 0;
  const auto corpus = open_corpora(files).training;
  const Sampler sampler{corpus, {.length = 20, .global_batch = 2, .vocabulary = 100}};
  for (int i = 0; i < 2; ++i) {
    const auto place = sampler.locate(0, i);
    Starts starts(20), expected(20, 0);
    sampler.document_starts(place, starts);
    if (place.first == 0) std::fill(expected.begin() + 10, expected.end(), 10);
    EXPECT_EQ(starts, expected) << place;
  }
}

TEST_F(DocumentStarts, ADamagedIndexIsNamed) {
  pair("a", some_tokens(10, 100), {3, 7});
  auto index = tests::content(folder_ / "a.idx");
  index[index.size() - 16] = 77;  // the second document's first sequence
  write(folder_ / "a.idx", index);
  const auto file = TokenFile::open(folder_ / "a.bin");
  tests::expect_refused([&] { of(file, 0, 10); }, "a.idx", "expected a document start from 0 to 2, found 77");
}

}  // namespace
}  // namespace flotilla::data
