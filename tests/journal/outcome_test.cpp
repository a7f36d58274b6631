#include "flotilla/journal/outcome.hpp"

#include <algorithm>
#include <random>

#include "flotilla/journal/run_directory.hpp"
#include "journal/run_folder.hpp"

namespace flotilla::journal {
namespace {

using namespace testing;

Outcome outcome_of(int rank, ExitCode code, double time = 1000, int incarnation = 1) {
  return {incarnation, rank, text("n", rank), code, text("why ", rank), 40, time};
}

TEST(Outcome, ReadsBackAsWritten) {
  const RunFolder run;
  const Outcome outcome{3, 5, "node-7", ExitCode::requeue, "SIGUSR1: \"saved\" at step 40\\ü", 40, 1234567890.125};
  EXPECT_TRUE(write_outcome(run, outcome));
  EXPECT_EQ(read_outcome(run), outcome);
  EXPECT_EQ(read_outcomes(run, 3), std::vector{outcome});
  EXPECT_TRUE(read_outcomes(run, 4).empty());
}

TEST(Outcome, NothingThereIsNothing) {
  const RunFolder run;
  EXPECT_FALSE(read_outcome(run).has_value());
  EXPECT_TRUE(read_outcomes(run, 1).empty());
  EXPECT_FALSE(merge({}).has_value());
}

TEST(Outcome, IsALineThatAShellScriptCanRead) {
  const RunFolder run;
  auto outcome = outcome_of(0, ExitCode::requeue);
  outcome.reason = "a line\nand \"exit_code\": 3 in it";
  write_outcome(run, outcome);
  const auto command = text("sed -n 's/.*\"exit_code\": \\([0-9]*\\).*/\\1/p' ", outcome_file(run).string());
  EXPECT_EQ(tests::run_line(command).output, "75\n");
}

TEST(Outcome, FillsInTheTime) {
  const RunFolder run;
  write_outcome(run, outcome_of(0, ExitCode::done, 0));
  EXPECT_GT(read_outcome(run)->time, 1.7e9);
}

TEST(Outcome, MergeTakesTheGravestThenTheEarliestThenTheLowestRank) {
  const auto merged_rank = [](std::vector<Outcome> outcomes) {
    std::mt19937 random{7};
    const auto first = merge(outcomes)->rank;
    for (int i = 0; i < 10; ++i) {
      std::shuffle(outcomes.begin(), outcomes.end(), random);
      EXPECT_EQ(merge(outcomes)->rank, first);
    }
    return first;
  };
  using enum ExitCode;
  EXPECT_EQ(merged_rank({outcome_of(0, lost_peer, 1), outcome_of(1, bad_input, 9), outcome_of(2, lost_peer, 2)}), 1);
  EXPECT_EQ(merged_rank({outcome_of(0, bad_input, 1), outcome_of(1, internal, 9)}), 1);
  EXPECT_EQ(merged_rank({outcome_of(0, requeue, 1), outcome_of(1, lost_peer, 9)}), 1);
  EXPECT_EQ(merged_rank({outcome_of(0, done, 1), outcome_of(1, requeue, 9)}), 1);
  EXPECT_EQ(merged_rank({outcome_of(0, lost_peer, 3), outcome_of(1, lost_peer, 2)}), 1);
  EXPECT_EQ(merged_rank({outcome_of(4, unavailable, 2), outcome_of(2, unavailable, 2)}), 2);
}

TEST(Outcome, SummaryFollowsEveryWriter) {
  const RunFolder run;
  using enum ExitCode;
  write_outcome(run, outcome_of(3, lost_peer, 1));
  EXPECT_EQ(read_outcome(run)->rank, 3);
  write_outcome(run, outcome_of(1, unavailable, 5));
  EXPECT_EQ(read_outcome(run)->rank, 1);
  write_outcome(run, outcome_of(2, lost_peer, 6));
  EXPECT_EQ(read_outcome(run)->rank, 1);
}

TEST(Outcome, ARanksFirstWordStays) {
  const RunFolder run;
  EXPECT_TRUE(write_outcome(run, outcome_of(0, ExitCode::requeue)));
  EXPECT_TRUE(write_outcome(run, outcome_of(0, ExitCode::internal)));
  EXPECT_EQ(read_outcome(run)->exit_code, ExitCode::requeue);
}

TEST(Outcome, WhoNeverHeldTheDirectoryWritesNothing) {
  const RunFolder folder;
  EXPECT_FALSE(write_outcome(folder / "run", outcome_of(0, ExitCode::unavailable, 1000, 0)));
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(Outcome, SummaryIsRightAfterAnyOrderOfWriters) {
  using enum ExitCode;
  std::vector<Outcome> outcomes{outcome_of(0, lost_peer, 5), outcome_of(1, requeue, 1), outcome_of(2, lost_peer, 3),
                                outcome_of(3, unavailable, 9)};
  const auto by_rank = [](const Outcome& a, const Outcome& b) { return a.rank < b.rank; };
  do {
    const RunFolder run;
    std::vector<Outcome> written;
    for (const auto& outcome : outcomes) {
      write_outcome(run, outcome);
      written.push_back(outcome);
      ASSERT_EQ(read_outcome(run), merge(written));
    }
  } while (std::ranges::next_permutation(outcomes, by_rank).found);
}

TEST(Outcome, ADamagedSummaryIsReplaced) {
  const RunFolder run;
  write(outcome_file(run), "{ damaged");
  EXPECT_TRUE(write_outcome(run, outcome_of(2, ExitCode::requeue)));
  EXPECT_EQ(read_outcome(run)->rank, 2);
}

TEST(Outcome, AnOlderIncarnationLeavesTheSummaryAlone) {
  const RunFolder run;
  RunDirectory::open(run).release();
  const auto second = RunDirectory::open(run);
  EXPECT_TRUE(write_outcome(run, outcome_of(0, ExitCode::lost_peer, 1000, 1)));
  EXPECT_FALSE(read_outcome(run).has_value());
  EXPECT_EQ(read_outcomes(run, 1).size(), 1u);
  write_outcome(run, outcome_of(0, ExitCode::done, 1001, 2));
  write_outcome(run, outcome_of(1, ExitCode::internal, 1002, 1));
  EXPECT_EQ(read_outcome(run)->incarnation, 2);
}

TEST(Outcome, ADamagedFileDoesNotHideTheOthers) {
  const RunFolder run;
  write_outcome(run, outcome_of(0, ExitCode::lost_peer));
  write(run / "outcomes/1.7.json", "{\"rank\": 7");
  EXPECT_TRUE(write_outcome(run, outcome_of(1, ExitCode::unavailable)));
  EXPECT_EQ(read_outcome(run)->rank, 1);
  expect_contains(refusal(ErrorKind::bad_input, [&] { read_outcomes(run, 1); }), "1.7.json");
}

TEST(Outcome, RefusesFilesThatAreNoOutcome) {
  const RunFolder run;
  for (const auto* damaged :
       {"", "[]", "{}",
        "{\"incarnation\": 1, \"rank\": 0, \"host\": \"n\", \"exit_code\": 1, \"reason\": \"\", \"step\": 0, \"time\": 0}"}) {
    write(outcome_file(run), damaged);
    expect_contains(refusal(ErrorKind::bad_input, [&] { read_outcome(run); }), outcome_file(run).string());
  }
}

TEST(Outcome, NeverThrows) {
  const RunFolder folder;
  write(folder / "file", "in the way");
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(write_outcome(folder / "file", outcome_of(0, ExitCode::requeue)));
  expect_contains(::testing::internal::GetCapturedStderr(), "exit code 75, why 0");
}

}  // namespace
}  // namespace flotilla::journal
