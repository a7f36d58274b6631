// A run directory that is full, or read-only, for a while: the run keeps what it has saved, trains on, and saves when it can again.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>

#include "run/training.hpp"

namespace flotilla::tests {
namespace {

constexpr int ranks = 2, endless = 1'000'000;

/// A mount namespace of this process's own: what is mounted here, only its children see. Why there is none, or "".
const std::string& no_namespace() {
  static const std::string reason = [] {
    const bool own = ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    return own ? std::string{} : "cannot mount here: " + std::string{std::strerror(errno)};
  }();
  return reason;
}

/// A run in a file system of its own, of 64 MiB.
class FullDisk : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!no_namespace().empty()) GTEST_SKIP() << no_namespace();
    fs::create_directories(run_);
    ASSERT_EQ(::mount("tmpfs", run_.c_str(), "tmpfs", 0, "size=64m,mode=0755"), 0) << std::strerror(errno);
    mounted_ = true;
  }
  void TearDown() override {
    process_.reset();
    if (mounted_) ::umount2(run_.c_str(), MNT_DETACH);
  }

  /// Trains until two checkpoints are there.
  void start(const Words& more = {}) {
    const std::string asynchronous = GetParam() ? "true" : "false";
    process_.emplace(
        train(run_, ranks,
              Words{text("--training.steps=", endless), "--checkpoint.every=2", "--checkpoint.asynchronous=" + asynchronous} + more),
        folder());
    ASSERT_TRUE(process_->until([&] { return committed(run_).size() >= 2 || !process_->running(); })) << process_->err();
    ASSERT_TRUE(process_->running()) << process_->err();
  }
  void fill() const {
    const int file = ::open(filler().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ASSERT_GE(file, 0);
    for (std::size_t block = 1 << 20; block > 0;)
      if (const std::vector<char> zeros(block); ::write(file, zeros.data(), block) < static_cast<ssize_t>(block)) block /= 2;
    ::close(file);
  }
  void free() const { fs::remove(filler()); }
  fs::path filler() const { return run_ / "filler"; }

  bool says(const std::string& words) { return process_->err().find(words) != std::string::npos; }
  void wait_for(const std::string& words) {
    ASSERT_TRUE(process_->until([&] { return says(words) || !process_->running(); })) << process_->err();
    ASSERT_TRUE(says(words)) << process_->err();
  }
  /// Steps go on, whatever becomes of their lines in the metrics.
  void expect_steps_go_on() {
    const auto lines = [&] { return std::ranges::count(process_->out(), '\n'); };
    const auto before = lines();
    EXPECT_TRUE(process_->until([&] { return lines() >= before + 5; })) << process_->err();
  }
  void signal(int number) {
    const auto living = process_->ranks();
    ASSERT_TRUE(living.contains(1) && ::kill(living.at(1), number) == 0);
  }
  Ended end() {
    auto ended = process_->wait();
    EXPECT_TRUE(ended.in_time) << "hung\n" << ended.left << ended.err;
    EXPECT_TRUE(process_->nothing_left());
    return ended;
  }
  void expect_resumes_after(std::int64_t step) {
    const auto again = tests::run(train(run_, ranks, {text("--training.steps=", step + 2)}));
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_NE(again.out.find(text("resumed after step ", step)), std::string::npos) << again.out << again.err;
  }

  const fs::path run_ = folder() / testing::UnitTest::GetInstance()->current_test_info()->name();
  std::optional<Process> process_;

 private:
  bool mounted_ = false;
};

const std::string trains_on = "training continues, and the save is tried again",
                  room_again = "the run directory has room again: saved at step";

TEST_P(FullDisk, TrainsOnAndSavesWhenThereIsRoom) {
  start();
  fill();
  wait_for(trains_on);
  const auto newest = committed(run_).back();
  expect_steps_go_on();
  EXPECT_EQ(committed(run_).back(), newest) << "what was saved is kept";
  free();
  wait_for(room_again);
  EXPECT_GT(committed(run_).back(), newest);
  signal(SIGUSR2);
  const auto ended = end();
  EXPECT_EQ(ended.code, 75) << ended.err;
  EXPECT_EQ(ended.err.find(trains_on), ended.err.rfind(trains_on)) << "once is enough\n" << ended.err;
  expect_resumes_after(committed(run_).back());
}

TEST_P(FullDisk, AStopWaitsForRoom) {
  start();
  fill();
  wait_for(trains_on);
  signal(SIGUSR2);
  wait_for("waiting for room to save step");
  free();
  const auto ended = end();
  EXPECT_EQ(ended.code, 75) << ended.err;
  EXPECT_NE(ended.err.find(text("saved at step ", committed(run_).back())), std::string::npos) << ended.err;
  expect_resumes_after(committed(run_).back());
}

TEST_P(FullDisk, AStopWithoutRoomEndsWithinTheGracePeriod) {
  start({"--run.grace=6s"});
  fill();
  wait_for(trains_on);
  const auto newest = committed(run_).back();
  signal(SIGTERM);
  const auto ended = end();
  EXPECT_EQ(ended.code, 69) << ended.err;
  EXPECT_NE(ended.err.find("there was no room in time to save step"), std::string::npos) << ended.err;
  EXPECT_EQ(committed(run_).back(), newest);
  free();
  expect_resumes_after(newest);
}

TEST_P(FullDisk, TheEndSaysHowLongItWaitsForHowMuch) {
  start({"--checkpoint.wait-for-room=2s"});
  EXPECT_NE(process_->out().find("room for "), std::string::npos) << process_->out();
  fill();
  wait_for(trains_on);
  signal(SIGUSR2);
  const auto ended = end();
  EXPECT_EQ(ended.code, 69) << ended.err;
  const auto line = ended.err.find("waiting for room to save step");
  ASSERT_NE(line, std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find(" more (--checkpoint.wait-for-room)", line), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("MiB are needed, ", line), std::string::npos) << ended.err;
}

/// Three checkpoints of 1.6 MiB, where two are kept, do not fit beside 60 MiB of 64.
TEST_P(FullDisk, TheFirstSaveSaysHowManyMoreFit) {
  std::ofstream{filler()} << std::string(60 << 20, 'x');
  const auto ended = run(train(run_, ranks,
                               {"--training.steps=8", "--checkpoint.every=2", "--checkpoint.wait-for-room=1s",
                                text("--checkpoint.asynchronous=", GetParam() ? "true" : "false")}));
  EXPECT_NE(ended.err.find("more of this size ("), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find(" are to come (--checkpoint.keep 2); make room or keep fewer"), std::string::npos) << ended.err;
}

TEST_P(FullDisk, AReadOnlyFileSystemIsWaitedFor) {
  start();
  // Another mount of the same folder over it: the metrics, which are open, keep their own.
  ASSERT_EQ(::mount(run_.c_str(), run_.c_str(), nullptr, MS_BIND, nullptr), 0) << std::strerror(errno);
  ASSERT_EQ(::mount(nullptr, run_.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr), 0) << std::strerror(errno);
  wait_for(trains_on);
  const auto newest = committed(run_).back();
  expect_steps_go_on();
  ASSERT_EQ(::umount2(run_.c_str(), MNT_DETACH), 0) << std::strerror(errno);
  wait_for(room_again);
  EXPECT_GT(committed(run_).back(), newest);
  signal(SIGUSR2);
  EXPECT_EQ(end().code, 75);
  expect_resumes_after(committed(run_).back());
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, FullDisk, testing::Bool(),
                         [](const auto& way) { return std::string{way.param ? "asynchronous" : "synchronous"}; });

}  // namespace
}  // namespace flotilla::tests
