// Runs whose documents are kept apart: on any ranks, through a kill, and what is refused.
#include "flotilla/files/json.hpp"
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

constexpr int steps = 16;

/// Words of text_file() are the documents: they end with a space.
Words job(const fs::path& run, int ranks, const Words& more = {}) {
  return train(run, ranks,
               Words{text("--training.steps=", steps), "--training.warmup-steps=2", "--training.evaluate-every=8",
                     "--training.evaluate-sequences=8", "--checkpoint.every=4", "--data.documents=separate", "--data.document-end=32"} +
                   more);
}

/// The run that nothing disturbs, on one rank.
const fs::path& unbroken() {
  static const fs::path run = [] {
    const auto ended = tests::run(job(folder() / "alone", 1));
    EXPECT_EQ(ended.code, 0) << ended.err;
    return folder() / "alone";
  }();
  return run;
}

void expect_as_unbroken(const fs::path& run) {
  const auto expected = losses(unbroken()), found = losses(run);
  ASSERT_EQ(found.size(), static_cast<std::size_t>(steps));
  for (const auto& [step, loss] : found) EXPECT_NEAR(loss, expected.at(step), 1e-4 * loss) << "step " << step;
  EXPECT_NEAR(journal::read_metrics(run).evaluations.back().loss, journal::read_metrics(unbroken()).evaluations.back().loss, 1e-3);
}

TEST(DocumentsRun, AreTheSameOnAnyRanksThroughAKill) {
  for (const int ranks : {2, 3}) {
    const auto run = folder() / text("killed-on-", ranks);
    unbroken();
    const Words plan = ranks == 2 ? Words{"--plan", plan_file(1, 2, 1)} : Words{};
    Process process{job(run, ranks, plan), folder()};
    EXPECT_TRUE(process.until([&] { return steps_logged(run) >= 6 || !process.running(); })) << process.err();
    for (const auto& [rank, pid] : process.ranks()) ::kill(pid, SIGKILL);
    process.wait();
    const auto ended = tests::run(job(run, ranks == 2 ? 3 : 2, ranks == 3 ? Words{"--plan", plan_file(1, 1, 2)} : Words{}));
    ASSERT_EQ(ended.code, 0) << ended.err;
    expect_as_unbroken(run);
  }
}

TEST(DocumentsRun, LearnFromLess) {
  const auto joined = folder() / "joined";
  ASSERT_EQ(tests::run(train(joined, 1, {text("--training.steps=", steps), "--training.warmup-steps=2"})).code, 0);
  EXPECT_GT(std::abs(losses(joined).at(steps) - losses(unbroken()).at(steps)), 1e-3);
}

TEST(DocumentsRun, AreAPropertyOfTheRun) {
  const auto run = folder() / "kept-apart";
  fs::copy(unbroken(), run, fs::copy_options::recursive);
  auto longer = with(job(run, 1), "--training.steps=", "20");
  auto joined = longer;
  std::erase_if(joined, [](const std::string& word) { return word.starts_with("--data.document"); });
  EXPECT_NE(the_error(tests::run(joined)).find("saved with 'documents = separate, end token 32', the job says ''"), std::string::npos);
  const auto ended = tests::run(with(longer, "--data.document-end=", "101"));
  EXPECT_EQ(ended.code, 65);
  EXPECT_NE(the_error(ended).find("the job says 'documents = separate, end token 101'"), std::string::npos);
  EXPECT_EQ(tests::run(longer).code, 0);
}

TEST(DocumentsRun, NeedEndsThatAreKnown) {
  auto command = job(folder() / "nowhere", 1);
  std::erase_if(command, [](const std::string& word) { return word.starts_with("--data.document-end"); });
  const auto ended = tests::run(command);
  EXPECT_EQ(ended.code, 65);
  EXPECT_NE(the_error(ended).find("text.txt: a text file does not say where documents end, which data.documents = \"separate\" needs"),
            std::string::npos)
      << ended.err;
}

/// Sources and lengths change from step to step, and so do the documents of what is drawn.
TEST(DocumentsRun, OfAMixtureInPhases) {
  const auto other = write(folder() / "other.txt", random_text(3, 20000));
  const auto source = [](const char* name, const fs::path& file, double weight) {
    return text("[[data.source]]\nname = \"", name, "\"\nfiles = [\"", file.string(), "\"]\nweight = ", weight, "\n");
  };
  const auto file =
      write(folder() / "mixture.toml", text("[[phase]]\nname = \"short\"\nsteps = 6\nlength = 16\n[[phase]]\nname = \"long\"\nsteps = 6\n",
                                            source("one", text_file(), 0.7), source("other", other, 0.3)));
  const auto command = [&](const std::string& run, int ranks, const Words& more = {}) {
    auto words = train(folder() / run, ranks, Words{file.string(), "--training.warmup-steps=2", "--checkpoint.every=3"} + more);
    std::erase_if(words, [](const std::string& word) { return word.starts_with("--data.train"); });
    return words;
  };
  const Words separate{"--data.documents=separate", "--data.document-end=32"};
  ASSERT_EQ(tests::run(command("mixed", 1, separate)).code, 0);
  ASSERT_EQ(tests::run(command("mixed-on-3", 3, separate)).code, 0);
  ASSERT_EQ(tests::run(command("mixed-joined", 1)).code, 0);
  const auto alone = losses(folder() / "mixed"), spread = losses(folder() / "mixed-on-3"), joined = losses(folder() / "mixed-joined");
  ASSERT_EQ(alone.size(), 12u);
  for (const auto& [step, loss] : alone) EXPECT_NEAR(spread.at(step), loss, 1e-4 * loss) << "step " << step;
  EXPECT_GT(std::abs(alone.at(12) - joined.at(12)), 1e-3);
}

Ended evaluate(int ranks, const Words& more) {
  return tests::run(mpirun(ranks) +
                    Words{FLOTILLA_BINARY, "evaluate", unbroken().string(), "--data", text_file().string(), "--evaluate.format=text",
                          "--length=32", "--format=json"} +
                    more);
}
double loss_of(const Ended& ended) {
  EXPECT_EQ(ended.code, 0) << ended.err;
  return files::Json::parse(ended.out, "evaluate").at("files").items().front().get_double("loss");
}

/// What the run was trained on is predicted better as it was trained on; on any number of ranks alike.
TEST(DocumentsRun, AreScoredApartOnRequest) {
  const Words separate{"--evaluate.documents=separate", "--evaluate.document-end=32"};
  const double apart = loss_of(evaluate(1, separate)), joined = loss_of(evaluate(1, {}));
  EXPECT_LT(apart, joined);
  EXPECT_NEAR(loss_of(evaluate(2, separate + Words{"--tensor-parallel=2"})), apart, 1e-5 * apart);
  EXPECT_NEAR(loss_of(evaluate(3, separate + Words{"--inference.pipeline=3"})), apart, 1e-5 * apart);
  const auto unknown = evaluate(1, {"--evaluate.documents=separate"}), no_effect = evaluate(1, {"--evaluate.document-end=32"});
  EXPECT_EQ(unknown.code, 65);
  EXPECT_NE(the_error(unknown).find("text.txt: does not say where documents end"), std::string::npos) << unknown.err;
  EXPECT_EQ(no_effect.code, 64);
  EXPECT_NE(the_error(no_effect).find("has no effect unless --evaluate.documents is separate"), std::string::npos) << no_effect.err;
}

/// Of the peak of `flotilla simulate` under the plan of the unbroken run.
std::int64_t forecast_bytes(const std::string& documents) {
  const auto plan = folder() / "plan.json";
  write(plan, checkpoint::latest(unbroken())->manifest.plan);
  const auto ended = tests::run({FLOTILLA_BINARY, "simulate", plan.string(), "--profiles=" + (folder() / "profile-1.json").string(),
                                 "--data.documents=" + documents, "--format=json"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  return files::Json::parse(ended.out, "simulate").get_int64("peak_memory_bytes");
}

/// An int for each token of a microbatch, of which one rank has one in flight.
TEST(DocumentsRun, AreInTheForecast) {
  const auto before = forecast_bytes("joined"), after = forecast_bytes("separate");
  const auto plan = files::read_plan(folder() / "plan.json");
  const Bytes starts{4 * length * plan.stages[0].replicas[0].quanta * plan.quantum};
  EXPECT_EQ(after - before, align_up(starts, 64).count);
}

}  // namespace
}  // namespace flotilla::tests
