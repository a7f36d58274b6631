// `flotilla control RUN --plan PLAN`: the run changes plan between two steps, without a restart, and its losses are to the last bit those
// of a run that restarted at that step from a checkpoint under the new plan.
#include "flotilla/session/control_document.hpp"
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

constexpr int ranks = 3, endless = 1'000'000;  // steps: how many are done until the next plan is ready is chance
const int steps_after = fewer_on_gpus(30, 6);  // of the change, at least, that are compared

Ended control(const fs::path& run, const fs::path& plan) {
  return tests::run({FLOTILLA_BINARY, "control", run.string(), "--plan", plan.string(), text("--wait=", hang_bound_option())});
}

/// Leaves the request for the start to find, so that the step of the change is known: it is made after the first one.
void ask_beforehand(const fs::path& run, const fs::path& plan) {
  fs::create_directories(run);
  write(session::control_file(run), session::control_to_json(files::read_plan(plan)));
}

struct Pair {
  const char* name;
  fs::path first, second;
};

TEST(Replan, LossesAreThoseOfARestartUnderTheNewPlan) {
  std::vector<Pair> pairs{{"a rank starts working", plan_file(1, 2, 1), plan_file(3, 1, 1)},
                          {"ranks become idle", plan_file(1, 3, 1), plan_file(1, 1, 2)}};
  if (on_gpus()) pairs.pop_back();
  for (const auto& [name, first, second] : pairs) {
    const auto changed = folder() / text("changed-", name), restarted = folder() / text("restarted-", name);
    // At a constant learning rate, so that runs of unlike lengths compare.
    const Words common{"--training.learning-rate=3e-4", "--training.minimum-learning-rate=3e-4", "--model.dropout=0.1",
                       "--checkpoint.keep=0"};
    const auto under = [&](const fs::path& plan, std::int64_t steps) {
      return common + Words{"--plan=" + plan.string(), text("--training.steps=", steps)};
    };
    ask_beforehand(changed, second);
    Process training{train(changed, ranks, under(first, endless)), folder()};
    const auto plans_of_run = [&] {
      return fs::exists(changed / "metrics.jsonl") ? journal::read_metrics(changed).plans : std::vector<journal::PlanRecord>{};
    };
    ASSERT_TRUE(training.until([&] { return !plans_of_run().empty() || !training.running(); })) << training.out() << training.err();
    const auto before = steps_logged(changed);
    ASSERT_TRUE(training.until([&] { return steps_logged(changed) >= before + steps_after || !training.running(); })) << training.err();
    const auto living = training.ranks();
    ASSERT_TRUE(living.contains(0) && ::kill(living.at(0), SIGTERM) == 0) << training.err();
    const auto ended = training.wait();
    ASSERT_EQ(ended.code, 75) << ended.err;
    EXPECT_TRUE(training.nothing_left());
    const auto plans = plans_of_run();
    ASSERT_EQ(plans.size(), 1u) << ended.out << ended.err;
    EXPECT_EQ(plans[0].refused, "");
    EXPECT_GT(plans[0].moved_bytes, 0);
    EXPECT_NE(ended.out.find("plan changed after step "), std::string::npos) << ended.out;
    EXPECT_FALSE(fs::exists(session::control_file(changed)));
    const auto at = plans[0].step, end = committed(changed).back();
    ASSERT_GE(end, at + steps_after);
    // To that step, and on from its checkpoint under the other plan.
    ASSERT_EQ(run(train(restarted, ranks, under(first, at))).code, 0);
    ASSERT_EQ(committed(restarted).back(), at);
    ASSERT_EQ(run(train(restarted, ranks, under(second, end))).code, 0);
    EXPECT_EQ(losses(changed), losses(restarted)) << name;
    EXPECT_EQ(losses(changed).size(), static_cast<std::size_t>(end));
  }
}

TEST(Replan, ARequestWhileItRunsIsAnswered) {
  const auto directory = folder() / "asked";
  Process training{train(directory, ranks, {text("--training.steps=", endless), "--plan=" + plan_file(1, 1, 1).string()}), folder()};
  ASSERT_TRUE(training.until([&] { return steps_logged(directory) > 5; })) << training.err();
  const auto good = control(directory, plan_file(1, 3, 1));
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_NE(good.out.find("changed after step "), std::string::npos) << good.out;
  const auto same = control(directory, plan_file(1, 3, 1));
  EXPECT_EQ(same.code, 65);
  EXPECT_NE(same.err.find("already active"), std::string::npos) << same.err;
  const auto large = control(directory, plan_file(4, 1, 1));
  EXPECT_EQ(large.code, 65);
  EXPECT_NE(large.err.find("needs 4 ranks, the job has 3"), std::string::npos) << large.err;
  EXPECT_EQ(control(directory, write(folder() / "no-plan.json", "{}")).code, 65);
  const auto before = steps_logged(directory);
  EXPECT_TRUE(training.until([&] { return steps_logged(directory) > before + 5; })) << "the run stands still: " << training.err();
  ::kill(training.ranks().at(2), SIGTERM);
  const auto ended = training.wait();
  EXPECT_EQ(ended.code, 75) << ended.err;
  EXPECT_NE(ended.err.find("SIGTERM on rank 2"), std::string::npos) << ended.err;
  EXPECT_TRUE(training.nothing_left());
  EXPECT_EQ(control(folder() / "nowhere", plan_file(1, 1, 1)).code, 66);
  const auto late = control(directory, plan_file(1, 1, 1));
  EXPECT_EQ(late.code, 69);
  EXPECT_NE(late.err.find("no run is going on here"), std::string::npos) << late.err;
  // The checkpoint was saved under the new plan, which a restart without --plan keeps.
  const auto again = run(train(directory, ranks, {"--training.steps=" + std::to_string(committed(directory).back() + 2)}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.out.find("plan source  kept from step"), std::string::npos) << again.out;
  EXPECT_NE(again.out.find("3 stages"), std::string::npos) << again.out;
}

TEST(Replan, WhatCannotBeMadeReadyLeavesTheOldPlanAtWork) {
  const auto directory = folder() / "no-room";
  Process training{
      train(directory, ranks, {text("--training.steps=", endless), "--plan=" + plan_file(1, 1, 1).string(), "--device.memory=100MiB"}),
      folder()};
  ASSERT_TRUE(training.until([&] { return steps_logged(directory) > 5; })) << training.err();
  for (int i = 0; i < 2; ++i) {  // the ranks without work, too, are ready for the next wish
    const auto refused = control(directory, plan_file(1, 3, 1));
    EXPECT_EQ(refused.code, 65);
    EXPECT_NE(refused.err.find("for both plans and may use 100 MiB"), std::string::npos) << refused.err;
    const auto before = steps_logged(directory);
    EXPECT_TRUE(training.until([&] { return steps_logged(directory) > before + 5; })) << training.err();
  }
  ::kill(training.ranks().at(1), SIGTERM);
  const auto ended = training.wait();
  EXPECT_EQ(ended.code, 75) << ended.err;
  EXPECT_NE(ended.err.find("the plan is kept"), std::string::npos) << ended.err;
  EXPECT_TRUE(training.nothing_left());
}

/// A stop while a plan is being made ready: the run ends as ever.
TEST(Replan, ARunMayEndMeanwhile) {
  for (const int steps_of_run : {3, 9, 27}) {
    const auto directory = folder() / text("ends-", steps_of_run);
    ask_beforehand(directory, plan_file(1, 3, 1));
    const auto ended = run(train(directory, ranks, {text("--training.steps=", steps_of_run), "--plan=" + plan_file(1, 1, 1).string()}));
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(losses(directory).size(), static_cast<std::size_t>(steps_of_run));
  }
}

}  // namespace
}  // namespace flotilla::tests
