#include "app/report/report.hpp"

#include "flotilla/files/json.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/journal/outcome.hpp"
#include "flotilla/journal/prometheus.hpp"
#include "flotilla/journal/run_directory.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::app {
namespace {

using tests::content;
using tests::error_of;
using tests::TemporaryFolder;

using namespace journal;

/// A run of three starts: saved on a warning; killed three steps after its last checkpoint; finished on another mix.
class Report : public ::testing::Test {
 protected:
  Report() {
    incarnation(1, 0, 4, {{"A100-40", "a100", 4, 1}}, 1000);
    stop(1, 4, ExitCode::requeue, "SIGUSR2 on rank 0: saved at step 4", 1050);
    incarnation(2, 4, 11, {{"A100-40", "a100", 4, 1}, {"V100-16", "v100", 8, 2}}, 2000);
    incarnation(3, 8, 12, {{"V100-16", "v100", 8, 2}}, 3000);
    stop(3, 12, ExitCode::done, "finished", 3060);
  }

  void incarnation(int number, std::int64_t from, std::int64_t to, std::vector<InventoryEntry> devices, double time) {
    auto held = RunDirectory::open(run_, {.job = "77"});
    EXPECT_EQ(held.incarnation(), number);
    MetricsWriter writer{run_, number};
    writer.write(StartRecord{.step = from, .ranks = 4, .plan = "1 stage", .host = "n1", .version = "x", .time = time + 5});
    writer.write(DevicesRecord{.step = from, .launched = time, .origin = "searched", .devices = std::move(devices), .time = time + 5});
    for (auto step = from + 1; step <= to; ++step)
      writer.write(StepRecord{.step = step,
                              .loss = 10.0 - static_cast<double>(step),
                              .step_seconds = 2,
                              .time = time + 10 + 2 * static_cast<double>(step - from)});
    held.release();
  }
  void stop(int number, std::int64_t step, ExitCode code, const std::string& reason, double time) {
    MetricsWriter{run_, number}.write(StopRecord{step, code, reason, time});
    std::filesystem::remove(run_ / "outcomes");
  }
  files::Json json(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{run_.path().string(), "--format=json"};
    words.insert(words.end(), more.begin(), more.end());
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(report_run(words), 0);
    return files::Json::parse(::testing::internal::GetCapturedStdout(), "report");
  }

  TemporaryFolder run_;
};

TEST_F(Report, TellsThePhases) {
  EXPECT_FALSE(json().has("phases")) << "a run without";
  {
    MetricsWriter writer{run_, 4};
    writer.write(StartRecord{.step = 12, .time = 4000});
    writer.write(PhaseRecord{12, "long", 32, 8, 4000});
    writer.write(StepRecord{.step = 13, .loss = 2.5, .step_seconds = 3, .time = 4003});
  }
  const auto phases = json().at("phases").items();
  ASSERT_EQ(phases.size(), 1u);
  EXPECT_EQ(phases[0].get_string("phase"), "long");
  EXPECT_EQ(phases[0].get_int64("first_step"), 12);
  EXPECT_EQ(phases[0].get_int64("last_step"), 13);
  EXPECT_EQ(phases[0].at("last_loss").as_double(), 2.5);
  const RunReport report{.run = "run", .incarnations = {}, .costs = {}, .phases = journal::phases_in(read_metrics(run_))};
  tests::expect_contains(run_report_text(report, {}, 100),
                         "phase      long: iterations 13 to 13; length 32, global batch 8; loss 2.5000 to");
}

TEST_F(Report, TellsWhichOptionsAStartChanged) {
  MetricsWriter{run_, 4}.write(StartRecord{.step = 12, .time = 4000, .changed = "clip 1 -> 2"});
  const auto starts = json().at("incarnations").items();
  EXPECT_FALSE(starts[2].has("changed"));
  EXPECT_EQ(starts[3].get_string("changed"), "clip 1 -> 2");
  const RunReport report{"run", read_history(run_), std::vector<RunCost>(4)};
  tests::expect_contains(run_report_text(report, {}, 100), "  changed     clip 1 -> 2\n");
}

TEST_F(Report, TellsTheLossesOfEachSource) {
  EXPECT_FALSE(json().has("evaluations")) << "a run without";
  {
    MetricsWriter writer{run_, 4};
    writer.write(journal::EvaluationRecord{.step = 4, .loss = 3, .sources = {{"web", 3.5}}});
    writer.write(journal::EvaluationRecord{.step = 8, .loss = 9, .sources = {{"web", 9}, {"code", 9}}});
    writer.write(journal::EvaluationRecord{.step = 8, .loss = 2, .sources = {{"web", 2.5}, {"code", 1.25}}});  // once more, after a restart
    writer.write(journal::EvaluationRecord{.step = 9, .loss = 2, .sources = {{"code", 1.125}, {"books", 1}}});
    writer.write(StartRecord{.step = 12, .time = 4000});
    writer.write(StepRecord{.step = 13, .loss = 4, .time = 4001, .sources = {{"web", 5, 32}, {"code", 3, 32}}});
    writer.write(StepRecord{.step = 14, .loss = 4.5, .time = 4002, .sources = {{"web", 4.5, 64}}});
  }
  const auto evaluations = json().at("evaluations").items();
  ASSERT_EQ(evaluations.size(), 3u);
  EXPECT_EQ(evaluations[1].get_int64("step"), 8);
  EXPECT_EQ(evaluations[1].at("loss").as_double(), 2);
  EXPECT_EQ(evaluations[1].at("sources").items()[1].get_string("source"), "code");
  EXPECT_EQ(evaluations[1].at("sources").items()[1].at("loss").as_double(), 1.25);
  const auto training = json().at("sources").items();
  ASSERT_EQ(training.size(), 2u);
  EXPECT_EQ(training[0].get_string("source"), "web");
  EXPECT_EQ(training[0].get_int64("last_step"), 14);
  EXPECT_EQ(training[0].at("first_loss").as_double(), 5);
  EXPECT_EQ(training[1].at("last_loss").as_double(), 3);
  const auto metrics = read_metrics(run_);
  const RunReport report{.run = "run",
                         .incarnations = {},
                         .costs = {},
                         .evaluations = journal::effective_evaluations(metrics),
                         .sources = journal::sources_in(journal::effective_steps(metrics))};
  const auto words = run_report_text(report, {}, 100);
  tests::expect_contains(words, "validation  web 3.5000 to 2.5000, code 1.2500 to 1.1250, books 1.0000");
  tests::expect_contains(words, "training    web 5.0000 to 4.5000, code 3.0000");
}

TEST_F(Report, TellsEveryStart) {
  const auto report = json();
  EXPECT_EQ(report.get_int64("steps"), 12);
  EXPECT_EQ(report.get_int64("lost_steps"), 3);
  EXPECT_DOUBLE_EQ(report.get_double("lost_seconds"), 6);
  const auto starts = report.at("incarnations").items();
  ASSERT_EQ(starts.size(), 3u);
  EXPECT_EQ(starts[0].get_int("exit_code"), 75);
  EXPECT_DOUBLE_EQ(starts[0].get_double("seconds_to_first_step"), 12);
  EXPECT_TRUE(starts[1].at("exit_code").is_null());
  EXPECT_EQ(starts[1].get_int64("lost_steps"), 3);
  EXPECT_EQ(starts[2].get_int64("lost_steps"), 0);
  EXPECT_EQ(starts[2].get_string("job"), "77");
  EXPECT_EQ(starts[2].at("devices").items().at(0).get_string("zone"), "v100");
  EXPECT_DOUBLE_EQ(starts[2].get_double("last_loss"), -2);
}

TEST_F(Report, ARefusedStartIsNoIncarnation) {
  auto held = RunDirectory::open(run_, {.job = "78"});
  MetricsWriter{run_, 4}.write(StopRecord{12, ExitCode::bad_input, "changed since step 12: seed 1 -> 2", 4000, 0, true});
  write_outcome(run_, {4, 0, "n1", ExitCode::bad_input, "changed since step 12: seed 1 -> 2"});
  held.release();
  const auto report = json();
  EXPECT_EQ(report.get_int64("steps"), 12);
  EXPECT_EQ(report.at("incarnations").size(), 3u);
  EXPECT_EQ(report.at("refused_start").get_int("exit_code"), 65);
  EXPECT_EQ(report.at("refused_start").get_string("reason"), "changed since step 12: seed 1 -> 2");
  incarnation(5, 12, 13, {}, 5000);  // one that went on
  EXPECT_FALSE(json().has("refused_start"));
  EXPECT_EQ(json().at("incarnations").size(), 4u);
}

TEST_F(Report, AStartThatEndedBeforeItsStepsTakesNoneAway) {
  RunDirectory::open(run_, {.job = "78"}).release();  // killed while it measured
  EXPECT_EQ(json().get_int64("steps"), 12);
}

TEST_F(Report, IterationsAfterTheNewestCheckpointAreNotSafe) {
  {
    MetricsWriter writer{run_, 4};
    writer.write(StartRecord{.step = 12, .time = 4000});
    for (std::int64_t step = 13; step <= 17; ++step) writer.write(StepRecord{.step = step, .time = 4001});
    writer.write(CheckpointRecord{.step = 13, .time = 4002});
  }
  const auto killed = json();
  EXPECT_EQ(killed.get_int64("unsaved_steps"), 4);
  EXPECT_EQ(killed.at("incarnations").items().back().get_int64("unsaved_steps"), 4);
  const RunReport report{"run", read_history(run_), std::vector<RunCost>(4)};
  tests::expect_contains(run_report_text(report, {}, 100),
                         "lost       3 iterations repeated, 6.00 s; 4 iterations after the newest\n           checkpoint\n");
  tests::expect_contains(run_report_text(report, {}, 100), "  lost         4 iterations after the newest checkpoint");
  const auto page = run_.path() / "report.html";
  json({"--html=" + page.string()});
  tests::expect_contains(files::read_text(page), "3 iterations repeated, 6.00 s; 4 iterations after the newest checkpoint");
  auto running = RunDirectory::open(run_);
  EXPECT_EQ(running.incarnation(), 4);
  EXPECT_EQ(json().get_int64("unsaved_steps"), 0) << "it will save them";
}

TEST_F(Report, NonsenseIsRefusedBeforeAnythingIsPrinted) {
  const auto whole = content(metrics_file(run_));
  for (const char* nonsense : {R"({"event": "checkpoint", "step": 1, "time": 1e300, "incarnation": 3, "bytes": 1, "seconds": 1})",
                               R"({"event": "checkpoint", "step": 1, "time": 3000, "incarnation": 3, "bytes": -1, "seconds": 1})",
                               R"({"event": "plan", "step": 1, "time": 3000, "incarnation": 3, "plan": "", "reason": "", "refused": "",)"
                               R"( "moved_bytes": 1, "pause_seconds": -1e18})"}) {
    run_.write("metrics.jsonl", whole + nonsense + "\n");
    ::testing::internal::CaptureStdout();
    const auto error = error_of([&] { report_run(std::vector<std::string>{run_.path().string(), "--format=json"}); });
    EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
  }
}

TEST_F(Report, TellsPlansThatChangedOnTheWay) {
  MetricsWriter{run_, 3}.write(PlanRecord{.step = 10, .plan = "2 stages", .reason = "n3 is slow", .moved_bytes = 7});
  const auto changes = json().at("incarnations").items().at(2).at("plan_changes").items();
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].get_string("plan"), "2 stages");
  EXPECT_EQ(changes[0].get_int64("moved_bytes"), 7);
}

TEST_F(Report, TellsWhichFiguresOfTheProfileWereWrong) {
  EXPECT_FALSE(json().at("incarnations").items()[0].has("profile_corrections"));
  MetricsWriter{run_, 3}.write(CorrectionRecord{.step = 10,
                                                .iterations = 18,
                                                .forecast_seconds = 1,
                                                .corrected_seconds = 1.25,
                                                .measured_seconds = 1.3,
                                                .file = "profile-corrected.json",
                                                .figures = {{"V100-16", "mlp_forward", 1, 4, 0.01, 0.013, 1.28, 1.33, 0.08, false}},
                                                .time = 3020});
  const auto found = json().at("incarnations").items()[2].at("profile_corrections").items();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].get_string("file"), "profile-corrected.json");
  EXPECT_EQ(found[0].get_double("corrected_seconds"), 1.25);
  const auto figures = found[0].at("figures").items();
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_EQ(figures[0].get_string("figure"), "mlp_forward");
  EXPECT_NEAR(figures[0].get_double("factor"), 1.3, 1e-12);
  const std::vector<std::string> words{run_.path().string()};
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(report_run(words), 0);
  const auto out = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(out.find("V100-16: operations take 1.30 times"), std::string::npos) << out;
  EXPECT_NE(out.find("1.25 s by the corrected"), std::string::npos) << out;
}

TEST_F(Report, CountsWhatItCost) {
  std::ofstream{run_ / "submission.json"} << R"({"format": "flotilla-submission", "version": 1, "components": [
    {"partition": "v100", "nodes": 2, "billing_units_per_hour": 72.0}]})";
  const auto starts = json({"--price=A100-40=3.60USD/h", "--price=V100-16=0.36USD/h"}).at("incarnations").items();
  // Another program's clock released it just now: only the killed and finished ones end where their lines do.
  const double hours = (starts[2].get_double("ended") - starts[2].get_double("launched")) / 3600;
  EXPECT_NEAR(starts[2].get_double("node_hours"), 2 * hours, 1e-9 * hours);
  EXPECT_NEAR(starts[2].get_double("billing_units"), 72 * hours, 1e-9 * 72 * hours);
  EXPECT_NEAR(starts[2].get_double("cost_usd"), 8 * 0.36 * hours, 1e-9 * hours);
  EXPECT_TRUE(starts[0].at("billing_units").is_null());  // nobody said what a100 bills
}

TEST_F(Report, IsForPeopleToo) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(report_run(std::vector<std::string>{run_.path().string()}), 0);
  const auto text = ::testing::internal::GetCapturedStdout();
  for (const std::string part :
       {"12 iterations, 3 incarnations", "3 iterations repeated", "75: SIGUSR2 on rank 0: saved at step 4", "killed without an exit status",
        "4 A100-40 @ a100 + 8 V100-16 @ v100, 3 nodes", "12.0 s after its launch"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  TemporaryFolder empty;
  EXPECT_NE(
      std::string{error_of([&] { report_run(std::vector<std::string>{empty.path().string()}); }).what()}.find("no run was ever started"),
      std::string::npos);
}

TEST(Prometheus, FileIsWholeAndEscaped) {
  TemporaryFolder folder;
  const auto file = folder / "flotilla.prom";
  PrometheusFile out{file, "run \"x\"\\\n", "7", Seconds{3600}};
  out.saved(3);
  out.update({.step = 4, .loss = 1.5, .time = 9, .incarnation = 2}, false);
  const auto text = content(file);
  EXPECT_NE(text.find("# TYPE flotilla_loss gauge\nflotilla_loss{run=\"run \\\"x\\\"\\\\\\n\",job=\"7\"} 1.5\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("flotilla_checkpoint_step{run=\"run \\\"x\\\"\\\\\\n\",job=\"7\"} 3\n"), std::string::npos) << text;
  out.update({.step = 5}, false);
  EXPECT_EQ(content(file), text);  // not so often
  out.update({.step = 6}, true);
  EXPECT_NE(content(file), text);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator{folder.path()}, {}), 1);
  PrometheusFile nowhere{folder / "no" / "x.prom", "", ""};
  nowhere.update({.step = 1}, true);  // a warning, no more
}

}  // namespace
}  // namespace flotilla::app
