// Which checkpoints stand after saves, and what a save refuses.
#include <fstream>

#include "checkpoint/session.hpp"
#include "directory.hpp"

namespace flotilla::checkpoint::commit_mpi_test {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<std::int64_t>;

class Commit : public Together {
 protected:
  Commit() : holding_{plan(), world_.rank()} { holding_.fill(1); }
  plan::Plan plan() const {
    std::mt19937 random{41};
    return random_plan(random, odd_model(), size());
  }
  Holding holding_;
};

TEST_F(Commit, KeepsTheLastFew) {
  for (std::int64_t step = 1; step <= 4; ++step) save(holding_, step, {.keep = 2});
  EXPECT_EQ(steps(), (Steps{3, 4}));
  save(holding_, 5, {.keep = 0});
  EXPECT_EQ(steps(), (Steps{3, 4, 5}));
  save(holding_, 10, {.keep = 1});
  EXPECT_EQ(steps(), (Steps{10}));
}

TEST_F(Commit, PhasesComeInOrder) {
  std::vector<SavePhase> phases;
  SaveOptions options;
  options.on_phase = [&](SavePhase phase) { phases.push_back(phase); };
  const auto report = save(holding_, 1, options);
  EXPECT_EQ(phases, (std::vector{SavePhase::prepare, SavePhase::reserve, SavePhase::write, SavePhase::flush, SavePhase::verify,
                                 SavePhase::commit, SavePhase::prune}));
  EXPECT_EQ(report.directory, step_directory(run_, 1));
  EXPECT_EQ(report.size.count, static_cast<std::int64_t>(fs::file_size(report.directory / "state.h5")));
}

TEST_F(Commit, RemovesWhatTheDeadLeft) {
  if (root()) {
    make_directory(run_ / "step-1");
    std::ofstream{run_ / "step-1" / "state.h5"} << "half";
    make_directory(run_ / "step-7");
    std::ofstream{run_ / "step-7" / "manifest.json.tmp"} << "half";
  }
  barrier();
  save(holding_, 1);
  EXPECT_EQ(steps(), Steps{1});
  EXPECT_FALSE(fs::exists(run_ / "step-7"));
  load(holding_, 1);
  EXPECT_EQ(holding_.wrong(1), 0);
}

TEST_F(Commit, LeavesWhatOthersMade) {
  if (root()) {
    fs::create_directory(run_ / "step-1");
    std::ofstream{run_ / "step-1" / "notes.txt"} << "mine";
    fs::create_directory(run_ / "step-7");
    std::ofstream{run_ / "step-7" / "state.h5"} << "a copy under way";
    fs::create_directory(own_ / "archive");
    std::ofstream{own_ / "archive" / "manifest.json"} << "{}";
    fs::create_directory_symlink(own_ / "archive", run_ / "step-0");
  }
  barrier();
  save(holding_, 1, {.keep = 1});
  save(holding_, 2, {.keep = 1});
  if (root()) {
    EXPECT_EQ(tests::content(run_ / "step-7" / "state.h5"), "a copy under way");
    EXPECT_TRUE(fs::exists(own_ / "archive" / "manifest.json"));
    EXPECT_TRUE(fs::is_symlink(run_ / "step-0"));
    int aside = 0;
    for (const auto& entry : fs::directory_iterator{run_})
      if (entry.path().filename().string().starts_with("step-1.aside-")) aside += tests::content(entry.path() / "notes.txt") == "mine";
    EXPECT_EQ(aside, 1);
    EXPECT_FALSE(fs::exists(run_ / "step-1"));
  }
  load(holding_, 2);
  EXPECT_EQ(holding_.wrong(1), 0);
}

TEST_F(Commit, ExplodedWeightsPruneNothingAndAreTheLastResort) {
  save(holding_, 1, {.keep = 1});
  holding_.fill(2);
  if (root()) holding_.state().parts.front().parameters.front() = 1e30f;
  save(holding_, 2, {.keep = 1});
  save(holding_, 3, {.keep = 1});
  EXPECT_EQ(steps(), (Steps{1, 3}));
  EXPECT_EQ(latest(run_)->manifest.step, 1);
  const auto found = load_newest_good(world_, run_, holding_.state(), {test_deadline});
  EXPECT_EQ(found.manifest.step, 1);
  EXPECT_EQ(holding_.wrong(1), 0);
  save(holding_, 4, {.keep = 1});
  EXPECT_EQ(steps(), Steps{4});
  if (root()) holding_.state().parts.front().parameters.front() = 1e30f;
  save(holding_, 5, {.keep = 0});
  barrier();
  if (root()) fs::remove_all(step_directory(run_, 4));
  barrier();
  EXPECT_EQ(load_newest_good(world_, run_, holding_.state(), {test_deadline}).manifest.step, 5);
}

/// What is not finite has its right checksum, and is refused all the same: nothing goes on from there.
TEST_F(Commit, WhatIsNotFiniteIsNoCheckpointToGoOnFrom) {
  save(holding_, 1, {.keep = 0});
  for (const auto kind : kinds) {
    holding_.fill(2);
    if (root()) holding_.state().parts.front().values(kind).front() = std::numeric_limits<float>::quiet_NaN();
    save(holding_, 2, {.keep = 0});
    const auto message = agreed_refusal(ErrorKind::bad_input, [&] { load(holding_, 2); });
    expect_names(message, "state.h5");
    expect_names(message, std::string{group_of(kind)});
    expect_names(message, "not finite");
    EXPECT_EQ(load_newest_good(world_, run_, holding_.state(), {test_deadline}).manifest.step, 1);
  }
}

TEST_F(Commit, ReplacesACommittedStep) {
  save(holding_, 3);
  holding_.fill(2);
  save(holding_, 3);
  EXPECT_EQ(steps(), Steps{3});
  holding_.clear();
  load(holding_, 3);
  EXPECT_EQ(holding_.wrong(2), 0);
  barrier();
  EXPECT_FALSE(fs::exists(run_ / "step-3.new"));
}

TEST_F(Commit, OwnersMustCoverEverythingOnce) {
  if (root())
    for (auto& part : holding_.state().parts) part.owner = false;
  const auto message = agreed_refusal(ErrorKind::internal, [&] { save(holding_, 1); });
  expect_names(message, "own");
  EXPECT_EQ(steps(), Steps{});
}

TEST_F(Commit, RanksMustAgreeOnTheStep) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const auto message = agreed_refusal(ErrorKind::bad_input, [&] { save(holding_, root() ? 1 : 2); });
  expect_names(message, "checkpoint");
  EXPECT_EQ(steps(), Steps{});
}

TEST_F(Commit, ARunDirectoryMustExist) {
  run_ /= "none";
  expect_names(agreed_refusal(ErrorKind::unavailable, [&] { save(holding_, 1); }), "none");
}

}  // namespace
}  // namespace flotilla::checkpoint::commit_mpi_test
