// A run that is stopped by a signal and goes on: under its own plan to the bit, under others within rounding, on the same sequences always.
#include <sched.h>

#include "flotilla/journal/history.hpp"
#include "flotilla/journal/outcome.hpp"
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

constexpr int ranks = 2, endless = 1'000'000;
const int least_steps = fewer_on_gpus(60, 20), compared = fewer_on_gpus(20, 6);

/// At a constant learning rate, so that runs of unlike lengths compare: how far a run has come when the signal reaches it is chance.
Words job(std::int64_t steps, int save_every = 0) {
  return {text("--training.steps=", steps),
          "--training.learning-rate=3e-4",
          "--training.minimum-learning-rate=3e-4",
          "--model.dropout=0.1",
          "--training.warmup-steps=5",
          "--training.evaluate-every=10",
          text("--training.evaluate-sequences=", fewer_on_gpus(16, 4)),
          text("--checkpoint.every=", save_every),
          "--checkpoint.keep=0"};
}

const fs::path& plan_x() {
  static const fs::path plan = plan_file(2, 1, 1);
  return plan;
}

/// The run that nothing disturbs, under plan X, to this step; once for all tests that end there.
const fs::path& unbroken(std::int64_t steps) {
  static std::map<std::int64_t, fs::path> runs;
  const auto [run, first] = runs.try_emplace(steps, folder() / text("unbroken-", steps));
  if (first) {
    const auto ended = tests::run(train(run->second, ranks, job(steps) + Words{"--plan", plan_x()}));
    EXPECT_EQ(ended.code, 0) << ended.err;
  }
  return run->second;
}

struct Stopped {
  fs::path run;
  std::int64_t step = 0;
  /// Where it is to go on to: far enough to compare what follows, and a step that is evaluated.
  std::int64_t end() const { return std::max<std::int64_t>(least_steps, (step + compared + 9) / 10 * 10); }
};

/// A run without end, stopped by a signal to one of its ranks.
Stopped stop_by(int signal, const std::string& name, int rank, int of_ranks = ranks) {
  Stopped stopped{folder() / text(name, "-on-", rank)};
  Process process{train(stopped.run, of_ranks, job(endless, 4) + Words{"--plan", plan_x()}), folder()};
  EXPECT_TRUE(process.until([&] { return steps_logged(stopped.run) >= 8 || !process.running(); })) << process.err();
  const auto living = process.ranks();
  EXPECT_TRUE(living.contains(rank) && ::kill(living.at(rank), signal) == 0);
  const auto ended = process.wait();
  EXPECT_TRUE(ended.in_time) << ended.err;
  EXPECT_TRUE(process.nothing_left());
  EXPECT_EQ(ended.code, 75) << ended.out << ended.err;
  EXPECT_EQ(debris(stopped.run), Words{});
  const auto saved = committed(stopped.run);
  const auto metrics = journal::read_metrics(stopped.run);
  if (saved.empty() || metrics.steps.empty() || metrics.stops.size() != 1) {
    ADD_FAILURE() << stopped.run << ": no checkpoint, step or stop on record\n" << ended.err;
    return stopped;
  }
  stopped.step = saved.back();
  EXPECT_EQ(metrics.steps.back().step, stopped.step) << "it went on after the save";
  EXPECT_EQ(metrics.stops[0].step, stopped.step);
  EXPECT_EQ(metrics.stops[0].exit_code, ExitCode::requeue);
  EXPECT_NE(metrics.stops[0].reason.find(text(name, " on rank ", rank)), std::string::npos) << metrics.stops[0].reason;
  return stopped;
}

fs::path copy_of(const fs::path& run, const std::string& name) {
  auto copy = folder() / name;
  fs::copy(run, copy, fs::copy_options::recursive);
  return copy;
}

std::map<std::int64_t, double> evaluations(const fs::path& run) {
  std::map<std::int64_t, double> found;
  for (const auto& evaluation : journal::read_metrics(run).evaluations) found[evaluation.step] = evaluation.loss;
  return found;
}

void resume_to_the_end(const Stopped& stopped, int on_ranks, const Words& how, const std::string& origin) {
  const auto ended = run(train(stopped.run, on_ranks, job(stopped.end()) + how));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find(text("resumed after step ", stopped.step, " (incarnation 2)")), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find(origin), std::string::npos) << ended.out;
  EXPECT_EQ(journal::read_metrics(stopped.run).starts.back().ranks, on_ranks);
  const auto last = checkpoint::latest(stopped.run);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->manifest.step, stopped.end());
  EXPECT_EQ(last->manifest.sequences, stopped.end() * global_batch);
}

class Signals : public testing::TestWithParam<std::tuple<int, const char*, int>> {};

TEST_P(Signals, StopEveryRankAtTheSameStepAndTheRunGoesOnToTheBit) {
  const auto [signal, name, rank] = GetParam();
  const auto stopped = stop_by(signal, name, rank);
  ASSERT_GT(stopped.step, 0);
  resume_to_the_end(stopped, ranks, {}, text("kept from step ", stopped.step));
  EXPECT_EQ(losses(stopped.run), losses(unbroken(stopped.end())));
  EXPECT_EQ(evaluations(stopped.run), evaluations(unbroken(stopped.end())));
  EXPECT_EQ(losses(stopped.run).size(), static_cast<std::size_t>(stopped.end()));
}

INSTANTIATE_TEST_SUITE_P(ToEitherRank, Signals,
                         testing::Values(std::tuple{SIGTERM, "SIGTERM", 1}, std::tuple{SIGUSR1, "SIGUSR1", 0},
                                         std::tuple{SIGUSR2, "SIGUSR2", 1}),
                         [](const auto& parameters) { return std::string{std::get<1>(parameters.param)}; });

TEST(Signal, ReachARankThatThePlanLeavesIdle) {
  const auto stopped = stop_by(SIGTERM, "SIGTERM", 2, 3);
  const auto expected = losses(unbroken(stopped.end()));
  for (const auto& [step, loss] : losses(stopped.run)) EXPECT_EQ(loss, expected.at(step)) << "step " << step;
}

/// A batch system may send more than one, and at any moment up to the end of the process.
TEST(Signal, ThoseAfterTheLastSaveChangeNothing) {
  const auto run = folder() / "told-often";
  Process process{train(run, ranks, {"--training.steps=1000000"}), folder()};
  ASSERT_TRUE(process.until([&] { return steps_logged(run) >= 3 || !process.running(); })) << process.err();
  const auto living = process.ranks();
  ASSERT_EQ(living.size(), static_cast<std::size_t>(ranks)) << process.err();
  const auto tell_again = [&] {
    for (const auto& [rank, pid] : living) ::kill(pid, SIGTERM);
    return !process.running();
  };
  EXPECT_TRUE(until(tell_again));
  EXPECT_EQ(process.wait().code, 75) << process.err();
  EXPECT_EQ(committed(run).size(), 1u);
}

TEST(Names, ARunDirectoryOf230CharactersIsSavedAndResumed) {
  const auto run = folder() / std::string(230, 'd');
  EXPECT_EQ(tests::run(train(run, ranks, {"--training.steps=2"})).code, 0);
  const auto again = tests::run(train(run, ranks, {"--training.steps=3"}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.out.find("resumed after step 2"), std::string::npos) << again.out;
}

TEST(Finished, ARunSaysSoBeforeItMeasuresAnything) {
  const auto there = folder() / "finished";
  ASSERT_EQ(run(train(there, ranks, {"--training.steps=2"})).code, 0);
  const auto lines = journal::read_metrics(there).starts.size();
  const auto again = run(train(there, ranks, {"--training.steps=2", "--probe.fresh-for=0s"}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.err, "flotilla: all 2 steps are done: nothing to do (--training.steps)\n");
  EXPECT_EQ(again.out, "");
  EXPECT_EQ(journal::read_metrics(there).starts.size(), lines);
  const auto outcome = journal::read_outcome(there);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->exit_code, ExitCode::done);
  EXPECT_EQ(outcome->step, 2);
}

TEST(Launcher, QuietLeavesOurLineAlone) {
  const auto ended =
      run(mpirun(ranks) + Words{"--quiet", FLOTILLA_BINARY, "train"} + options(folder() / "none", ranks) + Words{"--training.steps=0"});
  EXPECT_EQ(ended.code, 64);
  EXPECT_EQ(std::ranges::count(ended.err, '\n'), 1) << ended.err;
}

TEST(Launcher, ThatKeepsCpusFromTheRanksIsNamedOnce) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  ASSERT_EQ(::sched_getaffinity(0, sizeof mine, &mine), 0);
  if (CPU_COUNT(&mine) < 2) GTEST_SKIP() << "there is one CPU";
  int first = 0;
  while (!CPU_ISSET(first, &mine)) ++first;
  const auto job = Words{FLOTILLA_BINARY, "train"} + options(folder() / "bound", 1) + Words{"--training.steps=1"};
  const auto bound = with(mpirun(1) + Words{"taskset", "-c", std::to_string(first)} + job, "--run.threads=", "0");
  const auto ended = run(bound);
  EXPECT_EQ(ended.code, 0) << ended.err;
  const std::string line = " hardware threads: the launcher binds them to cores; write mpirun --bind-to none";
  ASSERT_NE(ended.err.find(line), std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find(line), ended.err.rfind(line)) << ended.err;
}

/// One stopped run, which tests copy.
const Stopped& stopped_once() {
  static const Stopped stopped = stop_by(SIGTERM, "SIGTERM", 0);
  return stopped;
}

struct Other {
  const char* name;
  int ranks;
  Words how;
  const char* origin;
};

class OtherPlan : public testing::TestWithParam<Other> {};

// With dropout on, another sequence or another place of it in the step would show far above the bound.
TEST_P(OtherPlan, AgreesOverTheNextSteps) {
  ASSERT_GT(stopped_once().step, 0);
  auto how = GetParam().how;
  if (how == Words{"--plan"}) how.push_back(plan_file(1, 2, 1));
  const Stopped stopped{copy_of(stopped_once().run, GetParam().name), stopped_once().step};
  resume_to_the_end(stopped, GetParam().ranks, how, GetParam().origin);
  const auto expected = losses(unbroken(stopped.end())), found = losses(stopped.run);
  int telling = 0;
  for (auto step = stopped.step + 1; step <= stopped.step + compared; ++step) {
    EXPECT_NEAR(found.at(step), expected.at(step), 1e-5 * expected.at(step)) << "step " << step;
    telling += std::abs(expected.at(step) - expected.at(step - 1)) > 1e-3;  // a hundred times what is allowed, and more
  }
  EXPECT_GT(telling, compared / 2) << "these steps would not show a shift";
}

INSTANTIATE_TEST_SUITE_P(
    Resume, OtherPlan,
    testing::Values(Other{"plan_file_pp2", 2, {"--plan"}, "plan source  --plan "},
                    Other{"tp2", 2, {"--replan", "--plan.tensor=2"}, "plan source  searched: "},
                    Other{"pp2_asked_for", 2, {"--plan.pipeline=2"}, "plan source  searched: "},
                    Other{"dp3", 3, {"--plan.data=3"}, "plan source  searched: "},
                    Other{"pp2_tp2", 4, {"--plan.pipeline=2", "--plan.tensor=2", "--plan.schedule=gpipe"}, "plan source  searched: "},
                    Other{"alone", 1, {}, "plan source  searched: "}),
    [](const auto& parameters) { return std::string{parameters.param.name}; });

/// The cost of a save is known from the first incarnation; nodes that fail every second make checkpoints due in every few steps.
TEST(Interval, FollowsFromFailuresAndWhatSavesCost) {
  const auto there = folder() / "interval";
  const auto first = run(train(there, ranks, job(10) + Words{"--plan", plan_x()}));
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out.find("checkpoints every"), std::string::npos) << first.out;
  const auto ended = run(train(there, ranks, job(400) + Words{"--checkpoint.node-mtbf=1s"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("checkpoints every "), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("(0 so far)"), std::string::npos) << ended.out;
  EXPECT_GT(committed(there).size(), 3u);
  const auto refused = run(train(there, ranks, job(401) + Words{"--checkpoint.node-mtbf=1s", "--checkpoint.every-time=1min"}));
  EXPECT_EQ(refused.code, 64);
  EXPECT_NE(the_error(refused).find("checkpoint.node-mtbf chooses the time between checkpoints"), std::string::npos);
}

struct Change {
  const char* option;
  std::string value, expected;
};

TEST(Changed, AnotherTrainingIsRefused) {
  ASSERT_GT(stopped_once().step, 0);
  const auto other_text = write(folder() / "other.txt", random_text(8, 50000));
  const Change changes[] = {
      {"--training.seed=", "2", "seed = 2"},
      {"--training.length=", "16", "length = 16"},
      {"--training.global-batch=", "4", "global-batch = 4"},
      {"--model.name=", "opt-tiny", "model.name gpt2-tiny -> opt-tiny (the model differs: activation \"gelu_tanh\" -> \"relu\", "},
      {"--data.train=", other_text.string(), "the training data has lost or changed a file"}};
  const auto there = copy_of(stopped_once().run, "changed");
  const auto before = committed(there);
  for (const auto& change : changes) {
    const auto ended = run(with(train(there, ranks, job(least_steps)), change.option, change.value));
    EXPECT_EQ(ended.code, 65) << change.option;
    const auto line = the_error(ended);
    EXPECT_NE(line.find(text("changed since step ", stopped_once().step, ": ")), std::string::npos) << line;
    EXPECT_NE(line.find(there.string()), std::string::npos) << line;
    EXPECT_NE(line.find(change.expected), std::string::npos) << line;
  }
  EXPECT_EQ(committed(there), before);
  EXPECT_EQ(debris(there), Words{});
  EXPECT_EQ(journal::read_metrics(there).refusals.size(), std::size(changes));
  EXPECT_EQ(journal::read_history(there).size(), 1u) << "a start that was refused is none of the run's";
}

TEST(Changed, OptionsOfTheUpdatesAreToldInTheTerminalAndInTheJournal) {
  ASSERT_GT(stopped_once().step, 0);
  const auto there = copy_of(stopped_once().run, "tuned");
  const auto steps = stopped_once().step + 1;
  const auto ended = run(with(train(there, ranks, job(steps)), "--training.learning-rate=", "5e-4") + Words{"--training.weight-decay=0.2"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  const auto changed = text("learning-rate 0.0003 -> 0.0005, steps ", endless, " -> ", steps, ", weight-decay 0.1 -> 0.2");
  EXPECT_NE(ended.err.find(text("changed since step ", stopped_once().step, ": ", changed, "\n")), std::string::npos) << ended.err;
  EXPECT_EQ(journal::read_metrics(there).starts.back().changed, changed);
}

}  // namespace
}  // namespace flotilla::tests
