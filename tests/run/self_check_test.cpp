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

/// A model with enough to compute that three ranks are faster than one.
constexpr const char* larger_model = "gpt2-mini";
constexpr int larger_length = 128, larger_batch = 24;

/// Two replicas of the first stage, one of the second: what data x pipeline x tensor degrees cannot say.
fs::path mixed_plan() {
  auto plan = plan::even_plan(model::built_in(larger_model), larger_length, larger_batch, Precision::fp32, 1, 2, 1, 2);
  auto half = plan.stages[0].replicas[0];
  half.sequences = larger_batch / 2;
  plan.stages[0].replicas = {half, half};
  plan.stages[0].replicas[1].devices = {Rank{1}};
  plan.stages[1].replicas[0].devices = {Rank{2}};
  const auto file = folder() / "mixed.json";
  files::write_plan(file, plan);
  return file;
}

/// Whether some rank has another share of the work than others beside it, or stages have unlike numbers of replicas.
bool is_mixed(const plan::Plan& plan) {
  const auto& first = plan.stages.front().replicas;
  return std::ranges::any_of(plan.stages, [&](const plan::Stage& stage) {
    return stage.replicas.size() != first.size() || std::ranges::any_of(stage.replicas, [&](const plan::Replica& replica) {
             return std::abs(replica.sequences - first.front().sequences) > plan.quantum || replica.quanta != first.front().quanta;
           });
  });
}

class SelfCheck : public testing::Test {
 protected:
  void start(const Words& how) { start_with(train(run_, 2, Words{"--training.steps=1000000", "--run.log-every=1000"} + how)); }
  void start_with(const Words& command) {
    process_.emplace(command, folder());
    ASSERT_TRUE(process_->until([&] { return steps_logged(run_) > 20; })) << process_->err();
  }
  void end() {
    ::kill(process_->ranks().at(0), SIGTERM);
    const auto ended = process_->wait();
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
    EXPECT_TRUE(process_->until([&] { return !said(run_, false).empty(); })) << process_->out() << process_->err();
  }
  EXPECT_TRUE(process_->until([&] { return !said(run_, true).empty(); })) << process_->out() << process_->err();
  end();
  const auto slow = said(run_, false);
  ASSERT_FALSE(slow.empty());
  EXPECT_EQ(slow[0].stage, 1);
  EXPECT_GT(slow[0].cost_seconds, 0);
  EXPECT_NE(process_->err().find(on_gpus() ? "(H100" : "(cpu"), std::string::npos) << process_->err();
  EXPECT_NE(process_->err().find("stage 1) is slow: its compute takes "), std::string::npos) << process_->err();
  EXPECT_NE(process_->err().find("stage 1) is no longer slow"), std::string::npos) << process_->err();
}

TEST_F(SelfCheck, WithReplanAutoThePlanChangesInPlace) {
  const auto changed = [&] {
    const auto plans =
        journal::read_metrics(run_).plans;  // the first iterations may have changed it, too, for what they say of the profile
    return !plans.empty() && plans.back().refused.empty() && plans.back().reason.find(" times slower") != std::string::npos;
  };
  // Where others take the cores, that may be a plan which a slow rank changes no more. Then the run begins anew: after so many windows of
  // the self-check, however long they take.
  constexpr int attempts = 3, enough_windows = 40;
  for (int attempt = 0; attempt == 0 || (attempt < attempts && !changed()); ++attempt) {
    if (attempt > 0) end(), fs::remove_all(run_);
    start({"--plan=" + plan_file(2, 1, 1).string(), "--replan=auto", "--log-level=debug"});
    const Throttle throttle{process_->ranks().at(victim)};
    const int before = windows_judged(*process_);
    EXPECT_TRUE(process_->until([&] { return changed() || windows_judged(*process_) > before + enough_windows; })) << process_->err();
  }
  EXPECT_TRUE(changed()) << process_->out() << process_->err();
  end();
  EXPECT_NE(process_->out().find("plan changed after step "), std::string::npos) << process_->out();
  EXPECT_NE(process_->out().find(" times slower: "), std::string::npos) << process_->out();
}

/// Two replicas beside one, then three replicas as the job file asks, of which the slow one gets less to do than the others.
TEST_F(SelfCheck, WithReplanAutoAMixedPlanChangesToAMixedPlan) {
  const auto job = write(folder() / "three.toml", "[plan]\ndata = 3\n");
  auto command = train(
      run_, 3, {job.string(), "--training.steps=1000000", "--run.log-every=1000", "--plan=" + mixed_plan().string(), "--replan=auto"});
  command = with(with(command, "--model.name=", larger_model), "--training.length=", std::to_string(larger_length));
  command =
      with(with(command, "--training.global-batch=", std::to_string(larger_batch)), "--probe.file=", (folder() / "larger.json").string());
  start_with(command);
  const auto changed = [&] {
    const auto plans = journal::read_metrics(run_).plans;
    return !plans.empty() && plans.back().refused.empty() && plans.back().reason.find("rank 1") != std::string::npos;
  };
  {
    const Throttle throttle{process_->ranks().at(victim)};
    EXPECT_TRUE(process_->until(changed)) << process_->out() << process_->err();
  }
  const auto plans = journal::read_metrics(run_).plans;
  end();
  ASSERT_FALSE(plans.empty());
  const auto saved = checkpoint::latest(run_);
  ASSERT_TRUE(saved);
  const auto plan = files::plan_from_json(saved->manifest.plan, "the checkpoint's plan");
  ASSERT_EQ(plan::rank_count(plan), 3) << plan::summary(plan);
  EXPECT_TRUE(is_mixed(plan)) << plan::summary(plan);
  for (const auto& replica : plan.stages[0].replicas)
    if (replica.devices.front() == Rank{victim}) {
      EXPECT_LT(replica.sequences, larger_batch / 3) << plan::summary(plan);
    }
}

}  // namespace
}  // namespace flotilla::tests
