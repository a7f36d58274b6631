#include "text_tokens.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace {

using flotilla::probe::text_tokens;

std::vector<int> counts_of(const std::vector<std::int32_t>& ids) {
  std::map<std::int32_t, int> by_id;
  for (const auto id : ids) ++by_id[id];
  std::vector<int> counts;
  for (const auto& [id, count] : by_id) counts.push_back(count);
  std::ranges::sort(counts, std::greater{});
  return counts;
}

/// Shares of the law itself: 1 / (r + 2.7) over the sum of all, which is 9.658 for 50,257 tokens.
TEST(TextTokens, AreAsFrequentAsWords) {
  constexpr std::size_t count = 200'000;
  const auto ids = text_tokens(50257, count);
  ASSERT_EQ(ids.size(), count);
  const auto counts = counts_of(ids);
  EXPECT_NEAR(counts[0], count / (3.7 * 9.658), 300) << "four standard deviations";
  EXPECT_NEAR(counts[9], count / (12.7 * 9.658), 170);
  EXPECT_GT(counts.size(), 20'000u) << "and rare ones are there";
}

TEST(TextTokens, AreIdsOfTheVocabularyAndTheSameAtEveryCall) {
  for (int vocabulary : {1, 2, 3, 256, 7919, 50257}) {
    const auto ids = text_tokens(vocabulary, 5000);
    EXPECT_TRUE(std::ranges::all_of(ids, [&](auto id) { return id >= 0 && id < vocabulary; })) << vocabulary;
    EXPECT_EQ(ids, text_tokens(vocabulary, 5000));
    const auto different = static_cast<int>(counts_of(ids).size());
    EXPECT_GE(different, std::min(vocabulary, 200)) << "every id is some rank's";
  }
}

TEST(TextTokens, OfAllRanksLieAllOverTheIds) {
  const auto ids = text_tokens(1000, 20'000);
  const auto low = std::ranges::count_if(ids, [](auto id) { return id < 500; });
  EXPECT_GT(low, 5'000);
  EXPECT_LT(low, 15'000);
}

}  // namespace
