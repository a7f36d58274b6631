// Saves on a thread of their own: what they write, what may go on beside them, and how they fail.
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "checkpoint/session.hpp"
#include "flotilla/checkpoint/background_save.hpp"

namespace flotilla::checkpoint::background_mpi_test {
namespace {

/// Holds a save in one of its phases until it is opened.
class Gate {
 public:
  explicit Gate(SavePhase phase) : phase_{phase} {}
  std::function<void(SavePhase)> hook() {
    return [this](SavePhase begun) {
      if (begun == phase_) open_.wait(false);
    };
  }
  void open() {
    open_ = true;
    open_.notify_all();
  }

 private:
  const SavePhase phase_;
  std::atomic<bool> open_{false};
};

class Background : public Together {
 protected:
  Background() : random_{static_cast<unsigned>(size())}, holding_{random_plan(random_, odd_model(), size()), world_.rank()} {}

  BackgroundSave make(StateMemory memory) const { return BackgroundSave{world_, holding_.state(), memory, test_deadline}; }
  void begin(BackgroundSave& save, std::int64_t step, std::function<void(SavePhase)> on_phase = {}) const {
    Manifest manifest;
    manifest.step = step;
    manifest.training = "test";
    save.begin(run_, holding_.state(), manifest, {.keep = 0, .deadline = test_deadline, .on_phase = std::move(on_phase)});
  }
  void expect_holds(std::int64_t step, std::uint64_t seed) {
    holding_.clear();
    EXPECT_EQ(load(holding_, step).step, step);
    EXPECT_EQ(holding_.wrong(seed), 0);
  }

  std::mt19937 random_;
  Holding holding_;
};

TEST_F(Background, WritesTheStateOfItsBeginWhileTheRanksAgreeOnOtherThings) {
  auto save = make(StateMemory::changes);
  holding_.fill(1);
  Gate gate{SavePhase::prepare};
  begin(save, 7, gate.hook());
  EXPECT_TRUE(save.under_way());
  EXPECT_FALSE(save.over());
  save.complete_copy();
  holding_.fill(2);
  gate.open();
  for (int i = 0; i < 30; ++i) comm::require_same(world_, "the number", std::to_string(i), test_deadline);
  const auto report = save.wait();
  EXPECT_FALSE(save.under_way());
  EXPECT_EQ(report.directory, step_directory(run_, 7));
  EXPECT_EQ(holding_.wrong(2), 0) << "the save does not touch what it was given";
  expect_holds(7, 1);
}

TEST_F(Background, TheCopyIsWholeWhoeverMakesIt) {
  auto save = make(StateMemory::changes);
  save.complete_copy();
  for (std::uint64_t step = 1; step <= 40; ++step) {
    holding_.fill(step);
    begin(save, static_cast<std::int64_t>(step));
    if (step % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds{20 * step});  // some of it is the other thread's
    save.complete_copy();
    holding_.clear();
    save.complete_copy();
    save.wait();
    expect_holds(static_cast<std::int64_t>(step), step);
  }
}

TEST_F(Background, TakesMemoryForWhatARankOwnsAlone) {
  std::int64_t owned = 0;
  for (const auto& part : holding_.state().parts) owned += part.owner ? 12 * part.elements() : 0;
  EXPECT_EQ(make(StateMemory::changes).copy_size(), Bytes{owned});
  EXPECT_EQ(make(StateMemory::stays).copy_size(), Bytes{0});
}

TEST_F(Background, AStateThatStaysIsSavedFromItsPlace) {
  auto save = make(StateMemory::stays);
  holding_.fill(3);
  begin(save, 3);
  save.wait();
  expect_holds(3, 3);
}

TEST_F(Background, SavesFollowEachOtherInOneMemory) {
  auto save = make(StateMemory::changes);
  for (const std::uint64_t step : {1, 2, 3}) {
    holding_.fill(step);
    begin(save, static_cast<std::int64_t>(step));
    while (!save.over()) std::this_thread::yield();
    save.wait();
  }
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1, 2, 3}));
  for (const std::uint64_t step : {3, 1, 2}) expect_holds(static_cast<std::int64_t>(step), step);
}

/// The disk is full for the last rank: a limit of the process, which holds for all its threads.
TEST_F(Background, AFailureIsEveryRanksAndTheNextSaveWorks) {
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &usual), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  const auto limit = [&](rlim_t bytes) {
    const rlimit changed{bytes, usual.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &changed), 0);
  };
  auto save = make(StateMemory::changes);
  holding_.fill(1);
  begin(save, 1);
  save.wait();
  const bool writes = std::ranges::any_of(holding_.state().parts, &LocalTensor::owner);
  const int writers = mpi::all_gather(world_.control(), writes ? world_.rank().value : -1, test_deadline).back();
  const int victim = writers < 0 ? 0 : writers;
  holding_.fill(2);
  begin(save, 2, [&](SavePhase phase) {
    if (phase == SavePhase::write && world_.rank().value == victim) limit(1);
  });
  const auto message = agreed_refusal(ErrorKind::unavailable, [&] { save.wait(); });
  expect_names(message, "cannot be written");
  EXPECT_FALSE(save.under_way());
  EXPECT_EQ(steps(), std::vector<std::int64_t>{1});
  EXPECT_FALSE(std::filesystem::exists(step_directory(run_, 2)));
  limit(usual.rlim_cur);
  barrier();
  begin(save, 2);
  save.wait();
  expect_holds(2, 2);
  expect_holds(1, 1);
}

TEST_F(Background, OverDoesNotThrowWhatAllRanksAgreeOn) {
  auto save = make(StateMemory::changes);
  const auto nowhere = run_ / "is-not-there";
  Manifest manifest;
  manifest.step = 1;
  save.begin(nowhere, holding_.state(), manifest, {.keep = 0, .deadline = test_deadline});
  while (!save.over()) std::this_thread::yield();
  expect_names(agreed_refusal(ErrorKind::unavailable, [&] { save.wait(); }), "is-not-there");
}

TEST_F(Background, WhoDoesNotWaitLosesNothing) {
  holding_.fill(5);
  {
    auto save = make(StateMemory::changes);
    begin(save, 5);
  }
  expect_holds(5, 5);
}

}  // namespace
}  // namespace flotilla::checkpoint::background_mpi_test
