#include "flotilla/journal/run_directory.hpp"

#include <algorithm>

#include "journal/run_folder.hpp"

namespace flotilla::journal {
namespace {

using namespace testing;

constexpr LockOptions no_heart{.job = "", .stale_after = {1000}, .heartbeat = {0}, .wait = {0}};

/// What a refusal says of the holder's last heartbeat.
double told_age(const std::string& message) {
  const std::string before = "last heartbeat ";
  const auto at = message.find(before);
  if (at == std::string::npos) return -1;
  std::istringstream words{message.substr(at + before.size())};
  double number = -1;
  std::string unit;
  words >> number >> unit;
  return unit == "s" ? number : unit == "min" ? 60 * number : -1;
}

TEST(RunDirectory, CountsIncarnationsUp) {
  const RunFolder folder;
  const auto run = folder / "deep/er";
  for (int expected = 1; expected <= 12; ++expected) {
    auto held = RunDirectory::open(run);
    EXPECT_EQ(held.incarnation(), expected);
    EXPECT_EQ(held.path(), run);
    EXPECT_EQ(held.note(), "");
    EXPECT_TRUE(held.still_mine());
    held.release();
    EXPECT_FALSE(held.still_mine());
    EXPECT_FALSE(held.touch());
  }
  EXPECT_EQ(newest_holder(run)->incarnation, 12);
  EXPECT_TRUE(newest_holder(run)->released);
}

TEST(RunDirectory, RefusesASecondHolderAndNamesTheFirst) {
  const RunFolder run;
  const auto first = RunDirectory::open(run, {.job = "4711"});
  const auto message = refusal(ErrorKind::unavailable, [&] { RunDirectory::open(run); });
  expect_contains(message, std::filesystem::path{run}.string() + ": in use by incarnation 1 (host ");
  expect_contains(message, text("pid ", getpid(), ", job 4711), started 20"));
  expect_contains(message, "wait until it ends, stop it, or choose another run directory");
  EXPECT_TRUE(first.still_mine());
  EXPECT_NO_THROW(first.require_mine());
}

TEST(RunDirectory, ReleasesInItsDestructorAndWhenReplaced) {
  const RunFolder run;
  { const auto first = RunDirectory::open(run); }
  auto second = RunDirectory::open(run);
  EXPECT_EQ(second.incarnation(), 2);
  const auto moved = std::move(second);
  EXPECT_TRUE(moved.still_mine());
  const RunFolder other;
  auto third = RunDirectory::open(other);
  third = RunDirectory::open(other / "inner");
  EXPECT_EQ(RunDirectory::open(other).incarnation(), 2);
}

TEST(RunDirectory, TakesOverAStaleHolderWhichNotices) {
  const RunFolder run;
  auto first = RunDirectory::open(run, no_heart);
  age(run / "incarnations/1.json", 900);
  const double told = told_age(refusal(ErrorKind::unavailable, [&] { RunDirectory::open(run, no_heart); }));
  EXPECT_GE(told, 900);
  EXPECT_LT(told, 1000);
  age(run / "incarnations/1.json", 1001);
  const auto second = RunDirectory::open(run, no_heart);
  EXPECT_EQ(second.incarnation(), 2);
  expect_contains(second.note(), "incarnation 1 (host ");
  expect_contains(second.note(), "no longer answers; taken over");
  EXPECT_FALSE(first.still_mine());
  EXPECT_FALSE(first.touch());
  const auto message = refusal(ErrorKind::unavailable, [&] { first.require_mine(); });
  expect_contains(message, "incarnation 1 no longer holds it: taken over by incarnation 2");
  first.release();
  EXPECT_TRUE(second.still_mine());
  expect_contains(refusal(ErrorKind::unavailable, [&] { RunDirectory::open(run, no_heart); }), "incarnation 2");
}

TEST(RunDirectory, ATouchKeepsItFresh) {
  const RunFolder run;
  auto first = RunDirectory::open(run, no_heart);
  age(run / "incarnations/1.json", 1001);
  EXPECT_TRUE(first.touch());
  EXPECT_LT(newest_holder(run)->heartbeat_age, 500);
  refusal(ErrorKind::unavailable, [&] { RunDirectory::open(run, no_heart); });
}

TEST(RunDirectory, TheHeartBeatsByItself) {
  const RunFolder run;
  const auto first = RunDirectory::open(run, {.stale_after = {1000}, .heartbeat = {0.01}});
  age(run / "incarnations/1.json", 1001);
  wait_until([&] { return newest_holder(run)->heartbeat_age < 500; });
  EXPECT_TRUE(first.still_mine());
}

TEST(RunDirectory, WaitsForADyingHolderAndSaysSoOnce) {
  const RunFolder run;
  auto first = RunDirectory::open(run, no_heart);
  Child second{[&] {
    if (freopen((run / "stderr").c_str(), "w", stderr) == nullptr) return 99;
    return RunDirectory::open(run, {.heartbeat = {0}, .wait = {60}}).incarnation();
  }};
  wait_until([&] { return content(run / "stderr").find("waiting up to 60.0 s for it to end\n") != std::string::npos; });
  first.release();
  EXPECT_EQ(second.wait(), 2);
  const auto said = content(run / "stderr");
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
}

TEST(RunDirectory, WaitsForTheEarlierStartOfItsOwnJobUntilThatIsStale) {
  const RunFolder run;
  const LockOptions requeued{.job = "77", .stale_after = {0.3}, .heartbeat = {0}, .wait = {0}};
  const auto first = RunDirectory::open(run, requeued);
  LockOptions other = requeued;
  other.job = "78";
  other.stale_after = flotilla::tests::hang_bound();
  refusal(ErrorKind::unavailable, [&] { RunDirectory::open(run, other); });
  LockOptions later = requeued;
  later.heartbeat = {0.5};  // so much longer it waits than until that is stale
  EXPECT_EQ(RunDirectory::open(run, later).incarnation(), 2);
  EXPECT_FALSE(first.still_mine());
}

TEST(RunDirectory, TakesOverFromItsOwnJobEarlierThanFromOthers) {
  const RunFolder run;
  const LockOptions of_77{.job = "77", .heartbeat = {0}};
  const auto first = RunDirectory::open(run, of_77);
  age(run / "incarnations/1.json", 60);
  LockOptions of_78 = of_77;
  of_78.job = "78";
  refusal(ErrorKind::unavailable, [&] { RunDirectory::open(run, of_78); });
  EXPECT_EQ(RunDirectory::open(run, of_77).incarnation(), 2);
  EXPECT_FALSE(first.still_mine());
}

TEST(RunDirectory, DoesNotWaitForEverForItsOwnJob) {
  const RunFolder run;
  const auto first = RunDirectory::open(run, {.job = "77", .heartbeat = {0}});
  age(run / "incarnations/1.json", -3600);  // a heart that does not miss a beat
  expect_contains(
      refusal(ErrorKind::unavailable, [&] { RunDirectory::open(run, {.job = "77", .stale_after = {0.5}, .heartbeat = {0.1}}); }),
      "in use by incarnation 1");
}

TEST(RunDirectory, JudgesADamagedClaimByItsHeartbeat) {
  const RunFolder run;
  std::filesystem::create_directories(run / "incarnations");
  for (const auto* damaged : {"", "{\"host\": \"n2\"", "[]", "{\"incarnation\": 7}"}) {
    write(run / "incarnations/7.json", damaged);
    expect_contains(refusal(ErrorKind::unavailable, [&] { RunDirectory::open(run); }), "incarnation 7 (its file is damaged)");
  }
  age(run / "incarnations/7.json", 500);
  EXPECT_EQ(RunDirectory::open(run).incarnation(), 8);
}

TEST(RunDirectory, IgnoresOtherFilesAmongTheIncarnations) {
  const RunFolder run;
  std::filesystem::create_directories(run / "incarnations");
  for (const auto* name : {"x.json", "0.json", "-3.json", "5.json.n2.41.0.own", "6", "99999999999999.json", "7.jsonl"}) {
    write(run / ("incarnations/" + std::string{name}), "{}");
  }
  EXPECT_EQ(RunDirectory::open(run).incarnation(), 1);
}

TEST(RunDirectory, IsLostWhenItsFilesAreTakenAway) {
  const RunFolder run;
  auto first = RunDirectory::open(run, no_heart);
  std::filesystem::remove_all(run / "incarnations");
  EXPECT_FALSE(first.still_mine());
  EXPECT_FALSE(first.touch());
  expect_contains(refusal(ErrorKind::unavailable, [&] { first.require_mine(); }), "gone");
  first.release();
  EXPECT_FALSE(std::filesystem::exists(run / "incarnations"));
}

TEST(RunDirectory, RefusesWhatIsNoFolder) {
  const RunFolder folder;
  write(folder / "file", "x");
  expect_contains(refusal(ErrorKind::bad_input, [&] { RunDirectory::open(folder / "file"); }), "cannot be made a run directory");
}

TEST(RunDirectory, LeavesNoOtherFilesBehind) {
  const RunFolder run;
  RunDirectory::open(run).release();
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{std::filesystem::path{run}}) files += entry.is_regular_file();
  EXPECT_EQ(files, 1);
}

TEST(RunDirectory, ClearsWhatKilledProcessesWereWriting) {
  const RunFolder run;
  RunDirectory::open(run).release();
  std::filesystem::create_directories(run / "outcomes");
  const std::string hex = ".0123456789abcdef";
  const auto old = run / ("profile.json" + hex + ".tmp");
  const auto unfinished = {run / ("outcomes/1.2.json" + hex + ".own" + hex + ".tmp"), run / ("outcomes/1.2.json" + hex + ".own"), old};
  // Somebody may be writing the second, and the others are not ours.
  const auto others = {run / "outcomes/1.2.json",          run / ("control.json" + hex + ".tmp"), run / "notes.tmp",
                       run / "outcomes/mine.own",          run / ("thesis.json" + hex + ".tmp"),  run / "outcome.json.7.0.tmp",
                       run / ("outcomes/x" + hex + ".own")};
  for (const auto& file : unfinished) write(file, "{");
  for (const auto& file : others) write(file, "{");
  for (const auto& file : {old, run / "notes.tmp", run / ("thesis.json" + hex + ".tmp")}) age(file, 3600);
  std::filesystem::create_symlink(run / "notes.tmp", run / ("outcomes/1.3.json" + hex + ".tmp"));
  const auto second = RunDirectory::open(run);
  for (const auto& file : unfinished) EXPECT_FALSE(std::filesystem::exists(file)) << file;
  for (const auto& file : others) EXPECT_TRUE(std::filesystem::exists(file)) << file;
  EXPECT_TRUE(std::filesystem::is_symlink(run / ("outcomes/1.3.json" + hex + ".tmp")));
}

TEST(RunDirectory, NumbersEndBeforeIntegersDo) {
  const RunFolder run;
  std::filesystem::create_directories(run / "incarnations");
  for (const auto* name : {"2147483647.json", "2147483646.json", "1000000000.json"}) write(run / "incarnations" / name, "{}");
  EXPECT_EQ(RunDirectory::open(run).incarnation(), 1);
  write(run / "incarnations" / "999999999.json", "{}");
  age(run / "incarnations" / "999999999.json", 3600);
  expect_contains(refusal(ErrorKind::bad_input, [&] { RunDirectory::open(run); }), "999999999.json: no incarnation has a higher number");
}

TEST(RunDirectory, RefusesFoldersThatLeadOutOfIt) {
  const RunFolder run, elsewhere;
  std::filesystem::create_directory_symlink(elsewhere, run / "incarnations");
  expect_contains(refusal(ErrorKind::bad_input, [&] { RunDirectory::open(run); }), "incarnations: is a symbolic link");
  EXPECT_TRUE(std::filesystem::is_empty(elsewhere));
}

TEST(RunDirectory, WhatCannotBeListedIsNotEmpty) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  const RunFolder run;
  RunDirectory::open(run).release();
  for (const auto& folder : {std::filesystem::path{run}, run / "incarnations", run / "outcomes"})
    ASSERT_EQ(::chown(folder.c_str(), 65534, 65534), 0);
  std::filesystem::permissions(run / "incarnations", std::filesystem::perms{0300});
  Child nobody{[&] {
    if (::setuid(65534) != 0 || freopen("/dev/null", "w", stderr) == nullptr) return 1;
    const auto message = refusal(ErrorKind::unavailable, [&] { RunDirectory::open(run); });
    return message.find("incarnations: cannot be examined") == std::string::npos ? 2 : 0;
  }};
  EXPECT_EQ(nobody.wait(), 0);
  EXPECT_FALSE(std::filesystem::exists(run / "incarnations/2.json"));
}

TEST(RunDirectory, StartsWithoutTheOutcomeOfTheLastIncarnation) {
  const RunFolder run;
  RunDirectory::open(run).release();
  write(outcome_file(run), "{}");
  const auto second = RunDirectory::open(run);
  EXPECT_FALSE(std::filesystem::exists(outcome_file(run)));
}

TEST(RunDirectory, NamesItsFiles) {
  EXPECT_EQ(step_folder("run", 40), "run/step-40");
  EXPECT_EQ(metrics_file("run"), "run/metrics.jsonl");
  EXPECT_EQ(outcome_file("run"), "run/outcome.json");
  EXPECT_FALSE(newest_holder("/nonexistent").has_value());
}

}  // namespace
}  // namespace flotilla::journal
