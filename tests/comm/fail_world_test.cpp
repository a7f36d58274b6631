// How a job ends when one rank fails, stops, is killed or is asked to stop: the launcher's exit code and the words that reach the user.
#include <gtest/gtest.h>

#include <string>

#include "flotilla/base/error.hpp"
#include "flotilla/comm/last_words.hpp"
#include "support/child.hpp"
#include "support/temporary_folder.hpp"

namespace {

using flotilla::tests::Finished;

Finished run(int ranks, const std::string& how) {
  const flotilla::tests::TemporaryFolder folder;
  return flotilla::tests::run_line(std::string{MPIRUN} + " -n " + std::to_string(ranks) + " " + DOOMED_JOB + " " + how + " " +
                                   folder.path().string());
}

TEST(FailWorld, GoodEndIsZero) {
  const Finished r = run(3, "fine");
  EXPECT_EQ(r.exit_code, 0) << r.output;
}

TEST(FailWorld, ExceptionOnOneRankEndsAllWithItsCodeAndItsWords) {
  const Finished r = run(3, "throw");
  EXPECT_EQ(r.exit_code, 65) << r.output;
  EXPECT_TRUE(r.says("flotilla: error: rank 2 on ")) << r.output;
  EXPECT_TRUE(r.says(": tokens.bin: cut short")) << r.output;
  EXPECT_TRUE(r.says("outcome of rank 2: 65 tokens.bin: cut short")) << r.output;
  EXPECT_TRUE(r.says("outcome of rank 0: 65 tokens.bin: cut short")) << "the others name the first cause\n" << r.output;
}

TEST(FailWorld, ForeignExceptionIsOurBug) {
  const Finished r = run(2, "bug");
  EXPECT_EQ(r.exit_code, 70) << r.output;
  EXPECT_TRUE(r.says("not ours")) << r.output;
}

TEST(FailWorld, StoppedRankIsALostPeerWhileTheOthersAreStuck) {
  const Finished r = run(3, "stop");
  EXPECT_EQ(r.exit_code, 77) << r.output;
  EXPECT_TRUE(r.says("rank 2 on ")) << r.output;
  EXPECT_TRUE(r.says("has been silent for")) << r.output;
}

TEST(FailWorld, KilledRankEndsTheJob) {
  const Finished r = run(3, "kill");
  EXPECT_TRUE(r.exit_code == 137 || r.exit_code == 77) << r.exit_code << r.output;
}

TEST(FailWorld, AgreedFailureEndsInGoodOrder) {
  const Finished r = run(3, "agree");
  EXPECT_EQ(r.exit_code, 76) << r.output;
  EXPECT_TRUE(r.says("agreed: rank 2 on ")) << r.output;
  EXPECT_FALSE(r.says("MPI_ABORT")) << r.output;
}

TEST(FailWorld, SignalAtOneRankStopsAllWithTheCodeForRequeue) {
  const Finished r = run(3, "signal");
  EXPECT_EQ(r.exit_code, 75) << r.output;
  for (const char* line : {"rank 0 stops: SIGUSR1 at rank 2", "rank 1 stops: SIGUSR1 at rank 2", "rank 2 stops: SIGUSR1 at rank 2"})
    EXPECT_TRUE(r.says(line)) << r.output;
}

TEST(LastWords, FollowTheKindOfError) {
  using namespace flotilla;
  const auto words_of = [](const auto& exception) {
    try {
      throw exception;
    } catch (...) {
      return comm::last_words();
    }
  };
  EXPECT_EQ(words_of(Error{ErrorKind::communication, "gone"}), (comm::LastWords{ExitCode::lost_peer, "gone"}));
  EXPECT_EQ(words_of(std::bad_alloc{}).code, ExitCode::unavailable);
  EXPECT_EQ(words_of(std::runtime_error{"odd"}), (comm::LastWords{ExitCode::internal, "odd"}));
  EXPECT_EQ(words_of(42).code, ExitCode::internal);
}

}  // namespace
