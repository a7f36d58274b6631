// Runs of several phases: on any number of ranks, through kills in each phase and at its ends; and runs that start from a checkpoint.
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

constexpr int steps = 24, second = 8, third = 16;

/// A batch that grows, then longer sequences of one source, annealed.
const fs::path& job_file() {
  static const fs::path file = [] {
    const auto web = write(folder() / "web.txt", random_text(1, 30000)), code = write(folder() / "code.txt", random_text(2, 20000));
    const auto source = [](const char* name, const fs::path& text_file, double weight) {
      return text("[[data.source]]\nname = \"", name, "\"\nfiles = [\"", text_file.string(), "\"]\nweight = ", weight, "\n");
    };
    return write(
        folder() / "phases.toml",
        text("[training]\nlength = 16\nglobal-batch = 4\nwarmup-steps = 2\n[[phase]]\nname = \"small\"\nsteps = 8\n[[phase]]\nname = "
             "\"large\"\nsteps = 8\nglobal-batch = 8\n[[phase]]\nname = \"long\"\nsteps = 8\nlength = 32\nglobal-batch = 6\nsources = "
             "[\"web\", \"code=0.75\"]\nlearning-rate-schedule = \"linear\"\nlearning-rate = 1e-4\nminimum-learning-rate = 0\n",
             source("web", web, 0.75), source("code", code, 0.25)));
  }();
  return file;
}

Words phases(const fs::path& run, int ranks, const Words& more = {}) {
  auto words = tests::train(
      run, ranks, {job_file().string(), "--training.evaluate-every=12", "--training.evaluate-sequences=4", "--checkpoint.keep=0"});
  std::erase_if(words, [](const std::string& word) {
    return word.starts_with("--data.train") || word.starts_with("--training.length") || word.starts_with("--training.global-batch");
  });
  return words + more;
}

/// The run that nothing disturbs, on one rank, with a checkpoint at every step.
const fs::path& unbroken() {
  static const fs::path run = [] {
    const auto ended = tests::run(phases(folder() / "alone", 1, {"--checkpoint.every=1"}));
    EXPECT_EQ(ended.code, 0) << ended.err;
    return folder() / "alone";
  }();
  return run;
}

/// Up to the order of sums, which differs from plan to plan.
void expect_same(const fs::path& run, int from = 0) {
  const auto expected = losses(unbroken());
  const auto found = losses(run);
  ASSERT_EQ(found.size(), static_cast<std::size_t>(steps - from));
  for (const auto& [step, loss] : found) EXPECT_NEAR(loss, expected.at(step), 1e-4 * loss) << "step " << step;
  auto sequences = digests(unbroken());
  std::erase_if(sequences, [from](const auto& step) { return step.first <= from; });
  EXPECT_EQ(digests(run), sequences) << "the tokens of each step, in their order";
  const auto theirs = checkpoint::latest(unbroken()), ours = checkpoint::latest(run);
  ASSERT_TRUE(theirs && ours);
  EXPECT_EQ(ours->manifest.training, theirs->manifest.training);
  EXPECT_EQ(ours->manifest.sequences, 8 * 4 + 8 * 8 + 8 * 6);
  EXPECT_EQ(journal::read_metrics(run).data.back().sources, journal::read_metrics(unbroken()).data.back().sources);
}

TEST(PhasesRun, GoesThroughItsPhases) {
  const auto metrics = journal::read_metrics(unbroken());
  ASSERT_EQ(metrics.phases.size(), 3u);
  EXPECT_EQ(metrics.phases[1].step, second);
  EXPECT_EQ(metrics.phases[1].phase, "large");
  EXPECT_EQ(metrics.phases[2].length, 32);
  ASSERT_EQ(metrics.plans.size(), 2u);
  EXPECT_EQ(metrics.plans[1].step, third);
  EXPECT_EQ(metrics.plans[1].reason, "phase 'long'");
  EXPECT_DOUBLE_EQ(metrics.steps.at(third).learning_rate, 1e-4);
  EXPECT_DOUBLE_EQ(metrics.steps.back().learning_rate, 0);
  const auto& sources = metrics.data.back().sources;
  EXPECT_NEAR(static_cast<double>(sources.at(0).drawn), 0.75 * 96 + 0.5 * 48, 2);
  EXPECT_NEAR(static_cast<double>(sources.at(1).drawn), 0.25 * 96 + 0.5 * 48, 2);
  const auto saved = checkpoint::latest(unbroken());
  ASSERT_TRUE(saved);
  EXPECT_NE(saved->manifest.training.find("phase 3 = from step 16, length 32, global-batch 6, sources web=0.75, code=0.75"),
            std::string::npos)
      << saved->manifest.training;
}

TEST(PhasesRun, IsTheSameOnAnyRanks) {
  for (const int ranks : {2, 3, 5}) {
    const auto run = folder() / text("on-", ranks);
    const auto ended = tests::run(phases(run, ranks));
    ASSERT_EQ(ended.code, 0) << ended.err;
    expect_same(run);
  }
}

TEST(PhasesRun, GoesOnFromAnyStepOnAnotherNumberOfRanks) {
  const std::pair<int, int> starts[] = {{3, 2}, {second, 3}, {11, 1}, {third, 2}, {20, 3}};  // in each phase and at its ends
  for (const auto& [step, ranks] : starts) {
    const auto run = folder() / text("from-", step);
    fs::create_directories(run);
    fs::copy(checkpoint::step_directory(unbroken(), step), checkpoint::step_directory(run, step), fs::copy_options::recursive);
    const auto ended = tests::run(phases(run, ranks));
    ASSERT_EQ(ended.code, 0) << ended.err;
    expect_same(run, step);
  }
}

/// The newest checkpoint is of a later phase than the one that can be loaded.
TEST(PhasesRun, GoesBackToAnEarlierPhaseWhereACheckpointIsDamaged) {
  const auto run = folder() / "damaged";
  fs::create_directories(run);
  for (const int step : {11, 18})
    fs::copy(checkpoint::step_directory(unbroken(), step), checkpoint::step_directory(run, step), fs::copy_options::recursive);
  const auto state = checkpoint::step_directory(run, 18) / "state.h5";
  const auto size = static_cast<std::streamoff>(fs::file_size(state));
  std::fstream file{state, std::ios::binary | std::ios::in | std::ios::out};
  file.seekp(size / 2);
  file << std::string(4096, '\x5a');
  file.close();
  const auto ended = tests::run(phases(run, 2));
  ASSERT_EQ(ended.code, 0) << ended.err;
  expect_same(run, 11);
}

TEST(PhasesRun, IsTheSameThroughKills) {
  const auto run = folder() / "killed";
  for (const int kill_after : {4, 12, 20}) {
    Process process{phases(run, 2, {"--checkpoint.every=3"}), folder()};
    EXPECT_TRUE(process.until([&] { return !process.running() || steps_logged(run) >= kill_after; })) << process.err();
    for (const auto& [rank, pid] : process.ranks()) ::kill(pid, SIGKILL);
    process.wait();
  }
  const auto ended = tests::run(phases(run, 3));
  ASSERT_EQ(ended.code, 0) << ended.err;
  expect_same(run);
}

/// The process of a rank beside its arena, MiB, as the plan assumes it.
double process_memory(const Ended& ended) {
  constexpr std::string_view words = "forecast at most ";
  const auto at = ended.out.find(words, ended.out.find("memory outside the arena"));
  EXPECT_NE(at, std::string::npos) << ended.out;
  return at == std::string::npos ? 0 : std::stod(ended.out.substr(at + words.size()));
}

TEST(PhasesRun, RefusesALaterPhaseThatDoesNotFitAtOnce) {
  const auto job = write(folder() / "too-long.toml",
                         "[training]\nlength = 16\nglobal-batch = 4\n[plan]\nmicrobatch = 4\nrecompute = \"none\"\n"
                         "[[phase]]\nname = \"short\"\nsteps = 2\n[[phase]]\nname = \"long\"\nsteps = 2\nlength = 256\n");
  const auto train = [&](const char* name, const Words& more) {
    return tests::run(mpirun(1) +
                      Words{FLOTILLA_BINARY, "train", job.string(), "--model.name=gpt2-tiny", "--data.train=" + text_file().string(),
                            "--run.threads=1", "--probe.budget=300ms", "--probe.file=" + (folder() / "too-long.json").string(),
                            "--run.directory=" + (folder() / name).string()} +
                      more);
  };
  const auto trial = train("short-alone", {"--training.steps=2"});
  EXPECT_EQ(trial.code, 0) << trial.err;
  const auto limit = text("--device.memory=", static_cast<int>(process_memory(trial)) + 10, "MiB");
  EXPECT_EQ(train("short-fits", {"--training.steps=2", limit}).code, 0);
  const auto refused = train("long-does-not", {limit});
  EXPECT_EQ(refused.code, 76) << refused.err;
  EXPECT_NE(the_error(refused).find("phase 'long': no plan fits the memory of 1 device; nearest: "), std::string::npos) << refused.err;
  EXPECT_EQ(steps_logged(folder() / "long-does-not"), 0) << "before the first step";
}

TEST(PhasesRun, RefusesAPhaseThatHasChanged) {
  const auto run = folder() / "changed";
  fs::create_directories(run);
  fs::copy(checkpoint::step_directory(unbroken(), 11), checkpoint::step_directory(run, 11), fs::copy_options::recursive);
  auto job = content(job_file());
  job.replace(job.find("steps = 8"), 9, "steps = 9");
  auto words = phases(run, 1);
  std::ranges::replace(words, job_file().string(), write(folder() / "other.toml", job).string());
  const auto refused = tests::run(words);
  EXPECT_EQ(refused.code, 65);
  EXPECT_NE(the_error(refused).find("saved with 'phase 2 = from step 8, length 16, global-batch 8', the job says 'phase 2 = from step 9"),
            std::string::npos)
      << refused.err;
}

/// The job that docs/phases.md shows.
TEST(PhasesRun, TheDocumentedJobRuns) {
  const auto page = content(fs::path{FLOTILLA_SOURCE} / "docs/phases.md");
  const std::string begin = "```toml\n";
  const auto first = page.find(begin) + begin.size();
  auto job = page.substr(first, page.find("```", first) - first);
  const auto in_folder = [&](const std::string& name) {
    const auto at = job.find('"' + name);
    ASSERT_NE(at, std::string::npos) << name;
    job.insert(at + 1, folder().string() + "/documented-");
  };
  in_folder("web-*.txt");
  in_folder("books.txt");
  write(folder() / "documented-web-1.txt", random_text(3, 40000));
  write(folder() / "documented-books.txt", random_text(4, 20000));
  const auto run = folder() / "documented";
  auto words = mpirun(2) + Words{FLOTILLA_BINARY,
                                 "train",
                                 write(folder() / "documented.toml", job).string(),
                                 "--run.directory=" + run.string(),
                                 "--run.threads=1",
                                 "--probe.budget=500ms"};
  const auto ended = tests::run(words);
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("phase 'anneal': steps 81 to 100, length 128, global batch 8"), std::string::npos) << ended.out;
  const auto reported = tests::run({FLOTILLA_BINARY, "report", run.string()});
  for (const char* line : {"phase      small: iterations 1 to 40; length 64, global batch 8", "phase      large: iterations 41 to 80"})
    EXPECT_NE(reported.out.find(line), std::string::npos) << reported.out;
  EXPECT_TRUE(fs::exists(run / "profile-128.json"));
}

// ---- from a checkpoint

Words from(const fs::path& run, int ranks, const fs::path& checkpoint, const Words& more = {}) {
  return train(
      run, ranks,
      Words{"--training.steps=3", "--training.learning-rate=3e-4", "--training.minimum-learning-rate=3e-4", "--from", checkpoint.string()} +
          more);
}

TEST(FromACheckpoint, ANewRunStartsWithItsWeights) {
  const auto base = folder() / "base";
  const Words constant{"--training.steps=6", "--training.learning-rate=3e-4", "--training.minimum-learning-rate=3e-4",
                       "--checkpoint.every=3", "--checkpoint.keep=0"};
  ASSERT_EQ(tests::run(train(base, 1, constant)).code, 0);
  const auto step = checkpoint::step_directory(base, 3);
  const auto weights = folder() / "tuned-weights", state = folder() / "tuned-state";
  for (const auto& [run, more] : {std::pair{weights, Words{}}, std::pair{state, Words{"--run.from-optimizer"}}})
    for (const int ranks : {2, 1}) {  // the second call finds the run done
      const auto ended = tests::run(from(run, ranks, step, more));
      ASSERT_EQ(ended.code, 0) << ended.err;
    }
  const auto untrained = losses(base), tuned = losses(weights), with_state = losses(state);
  EXPECT_NEAR(tuned.at(1), with_state.at(1), 1e-4) << "the same weights and the same first batch";
  EXPECT_LT(tuned.at(1), untrained.at(1) - 0.01) << "these weights have been trained on that batch";
  EXPECT_GT(std::abs(tuned.at(3) - with_state.at(3)), 1e-5) << "another optimizer's state";
  EXPECT_EQ(checkpoint::latest(weights)->manifest.optimizer_steps, 3);
  EXPECT_EQ(checkpoint::latest(state)->manifest.optimizer_steps, 6);
  const auto saved = checkpoint::latest(state);
  ASSERT_TRUE(saved);
  EXPECT_EQ(std::ranges::count(saved->manifest.provenance,
                               std::pair<std::string, std::string>{"weights", "base/step-3, with the optimizer's state"}),
            1);
}

TEST(FromACheckpoint, WhatIsNoneIsRefused) {
  const auto refused = [&](const fs::path& checkpoint, const Words& more = {}, int code = 65) {
    auto words = from(folder() / "refused", 2, checkpoint);
    for (const auto& word : more) words = with(std::move(words), word.substr(0, word.find('=') + 1), word.substr(word.find('=') + 1));
    const auto ended = tests::run(words);
    EXPECT_EQ(ended.code, code) << ended.err;
    return the_error(ended);
  };
  unbroken();
  EXPECT_NE(refused(folder() / "nowhere", {}, 66).find("no such file or folder; expected RUN/step-N"), std::string::npos);
  EXPECT_NE(refused(unbroken() / "outcomes").find("is no checkpoint; expected RUN/step-N"), std::string::npos);
  EXPECT_NE(refused(unbroken()).find(text("is a run; write --from ", checkpoint::step_directory(unbroken(), steps).string())),
            std::string::npos);
  EXPECT_NE(refused(checkpoint::step_directory(unbroken(), 5), {"--model.name=llama-tiny"}).find("of another model"), std::string::npos);
}

}  // namespace
}  // namespace flotilla::tests
