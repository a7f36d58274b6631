#include "flotilla/base/nearest.hpp"

#include <gtest/gtest.h>

#include <random>

namespace flotilla {
namespace {

TEST(EditDistance, KnownPairs) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("stpes", "steps"), 1u);
  EXPECT_EQ(edit_distance("Steps", "steps"), 0u);
  EXPECT_EQ(edit_distance("flaw", "lawn"), 2u);
}

TEST(EditDistance, SymmetricAndBoundedByEveryEdit) {
  std::mt19937 random{11};
  const auto word = [&] {
    std::string out(random() % 12, ' ');
    for (char& c : out) c = static_cast<char>('a' + random() % 4);
    return out;
  };
  for (int round = 0; round < 500; ++round) {
    const auto a = word(), b = word();
    const auto distance = edit_distance(a, b);
    EXPECT_EQ(distance, edit_distance(b, a));
    EXPECT_LE(distance, std::max(a.size(), b.size()));
    EXPECT_GE(distance, std::max(a.size(), b.size()) - std::min(a.size(), b.size()));
    EXPECT_LE(edit_distance(a + "x", b), distance + 1);
    EXPECT_EQ(distance == 0, a == b);
  }
}

TEST(Nearest, OnlyWhatCouldBeMeant) {
  const std::vector<std::string> known{"train", "probe", "inspect", "plan"};
  EXPECT_EQ(nearest("trian", known), "train");
  EXPECT_EQ(nearest("insepct", known), "inspect");
  EXPECT_EQ(nearest("dance", known), "");
  EXPECT_EQ(nearest("", known), "");
  EXPECT_EQ(nearest(std::string(1 << 20, 'a'), known), "");
  const std::vector<std::string> options{"--training.beta1", "--training.global-batch", "--model.config", "--model.name", "--run.threads"};
  EXPECT_EQ(nearest("--training.batch", options), "--training.global-batch");
  EXPECT_EQ(nearest("--model", options), "--model.name");
  EXPECT_EQ(nearest("--training.beta", options), "--training.beta1");
  EXPECT_EQ(nearest("--threads", options), "--run.threads");
  EXPECT_EQ(nearest("--thraeds", options), "");
  EXPECT_EQ(nearest("--", options), "");
  EXPECT_EQ(suggestion("prob", known), "; did you mean 'probe'?");
  EXPECT_EQ(suggestion("xyzzy", known), "");
  EXPECT_TRUE(same_word("OPT-350m", "opt-350M"));
  EXPECT_FALSE(same_word("opt-350m", "opt-350"));
  EXPECT_FALSE(same_word("opt-350", "opt-350m"));
}

}  // namespace
}  // namespace flotilla
