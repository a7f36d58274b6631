#include "flotilla/session/start_progress.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "flotilla/base/text.hpp"

namespace flotilla::session {
namespace {

std::string name(Rank rank) { return text("rank ", rank, " on n", rank); }

std::vector<int> phases(std::initializer_list<StartPhase> all) {
  std::vector<int> numbers;
  for (const auto phase : all) numbers.push_back(static_cast<int>(phase));
  return numbers;
}

TEST(StartProgress, AllInOnePhaseAreNotNamed) {
  EXPECT_EQ(what_start_waits_for(phases({StartPhase::planning, StartPhase::planning}), name), "planning");
}

TEST(StartProgress, ThoseBehindAreNamed) {
  EXPECT_EQ(what_start_waits_for(phases({StartPhase::planning, StartPhase::measuring}), name),
            "measuring devices and links on rank 1 on n1");
}

TEST(StartProgress, OfManyOnlyTheFirstAreNamed) {
  using enum StartPhase;
  EXPECT_EQ(what_start_waits_for(phases({loading, loading, loading, loading, loading, first_step}), name),
            "loading the training state on rank 0 on n0, rank 1 on n1, rank 2 on n2, rank 3 on n3 and 1 more");
}

}  // namespace
}  // namespace flotilla::session
