// A rank whose processor has other work is named, with its host and stage, once; and once when it is over. With --replan auto the plan
// changes so that it does less.
#include <sched.h>

#include "run/training.hpp"

namespace flotilla::tests {
namespace {

/// A process that gets a quarter of the time, as under a quota: stopped and woken in turn.
class Throttle {
 public:
  explicit Throttle(int pid)
      : thread_{[pid](std::stop_token stop) {
          while (!stop.stop_requested()) {
            ::kill(pid, SIGSTOP);
            std::this_thread::sleep_for(Milliseconds{60});
            ::kill(pid, SIGCONT);
            std::this_thread::sleep_for(Milliseconds{20});
          }
        }} {}

 private:
  std::jthread thread_;
};

constexpr int victim = 1;

/// What was said of the victim itself; on a busy machine the other rank may be slow, too.
std::vector<journal::SlowRecord> said(const fs::path& run, bool over) {
  std::vector<journal::SlowRecord> found;
  for (const auto& record : journal::read_metrics(run).slow)
    if (record.rank == victim && record.peer < 0 && record.over == over) found.push_back(record);
  return found;
}

class SelfCheck : public testing::Test {
 protected:
  void start(const Words& how) {
    process_.emplace(train(run_, 2, Words{"--training.steps=1000000", "--run.log-every=1000"} + how), folder());
    ASSERT_TRUE(wait_until([&] { return steps_logged(run_) > 20; }, patience)) << process_->err();
  }
  void end() {
    ::kill(process_->ranks().at(0), SIGTERM);
    const auto ended = process_->wait(patience);
    EXPECT_EQ(ended.code, 75) << ended.err;
    EXPECT_TRUE(process_->nothing_left());
  }

  const fs::path run_ = folder() / testing::UnitTest::GetInstance()->current_test_info()->name();
  std::optional<Process> process_;
};

TEST_F(SelfCheck, ASlowRankIsNamedAndAgainWhenItIsOver) {
  start({"--plan=" + plan_file(1, 2, 1).string()});
  {
    const Throttle throttle{process_->ranks().at(victim)};
    EXPECT_TRUE(wait_until([&] { return !said(run_, false).empty(); }, patience)) << process_->out() << process_->err();
  }
  EXPECT_TRUE(wait_until([&] { return !said(run_, true).empty(); }, patience)) << process_->out() << process_->err();
  end();
  const auto slow = said(run_, false);
  ASSERT_FALSE(slow.empty());
  EXPECT_EQ(slow[0].stage, 1);
  EXPECT_GT(slow[0].cost_seconds, 0);
  EXPECT_NE(process_->err().find("(cpu"), std::string::npos) << process_->err();
  EXPECT_NE(process_->err().find("stage 1) is slow: its compute takes "), std::string::npos) << process_->err();
  EXPECT_NE(process_->err().find("stage 1) is no longer slow"), std::string::npos) << process_->err();
}

TEST_F(SelfCheck, WithReplanAutoThePlanChangesInPlace) {
  start({"--plan=" + plan_file(2, 1, 1).string(), "--replan=auto"});
  const auto changed = [&] {
    const auto plans = journal::read_metrics(run_).plans;
    return !plans.empty() && plans.back().refused.empty();
  };
  {
    const Throttle throttle{process_->ranks().at(victim)};
    EXPECT_TRUE(wait_until(changed, patience)) << process_->out() << process_->err();
  }
  end();
  EXPECT_NE(process_->out().find("plan changed after step "), std::string::npos) << process_->out();
  EXPECT_NE(process_->out().find(" times slower: "), std::string::npos) << process_->out();
}

}  // namespace
}  // namespace flotilla::tests
