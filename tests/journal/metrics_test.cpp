#include "flotilla/journal/metrics.hpp"

#include <sys/resource.h>

#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "flotilla/journal/console.hpp"
#include "flotilla/journal/run_directory.hpp"
#include "journal/run_folder.hpp"

namespace flotilla::journal {
namespace {

using namespace testing;

StepRecord step_of(std::int64_t step, double loss = 2.5) {
  return {step, loss, 12345.5, 0.345, 0.412, 3e-4, 1.25, 323, 1000.5 + static_cast<double>(step), 0};
}

TEST(Metrics, EveryRecordReadsBackAsWritten) {
  const RunFolder run;
  MetricsWriter writer{run, 4};
  writer.write(StartRecord{10, 8, "2 stages: [0,4) 2x tp1 \"quoted\"", "n1", "0.1.0", 1000.25, 0, "clip 1 -> 2"});
  auto step = step_of(11);
  step.digest = "0123456789abcdef";
  step.sources = {{"web", 2.25, 48}, {"\"code\"", 3, 16}};
  writer.write(step);
  writer.write(EvaluationRecord{11, 2.25, 64, 1.5, 1001, 0});
  writer.write(CheckpointRecord{11, 1 << 30, 2.5, 1002, 0});
  writer.write(ForecastRecord{11, 0.5, 0.0625, 0.25, 18, true, 1004, 0});
  writer.write(StopRecord{11, ExitCode::requeue, "SIGTERM", 1003, 0});
  const auto m = read_metrics(run);
  ASSERT_EQ(m.starts.size() + m.steps.size() + m.evaluations.size() + m.checkpoints.size() + m.forecasts.size() + m.stops.size(), 6u);
  EXPECT_EQ(m.starts[0].ranks, 8);
  EXPECT_EQ(m.starts[0].plan, "2 stages: [0,4) 2x tp1 \"quoted\"");
  EXPECT_EQ(m.starts[0].host, "n1");
  EXPECT_EQ(m.starts[0].version, "0.1.0");
  EXPECT_EQ(m.starts[0].time, 1000.25);
  const auto& s = m.steps[0];
  EXPECT_EQ(std::tuple(s.step, s.loss, s.tokens_per_second, s.step_seconds, s.share_of_peak), std::tuple(11, 2.5, 12345.5, 0.345, 0.412));
  EXPECT_EQ(std::tuple(s.learning_rate, s.gradient_norm, s.eta_seconds, s.time, s.incarnation), std::tuple(3e-4, 1.25, 323.0, 1011.5, 4));
  EXPECT_EQ(s.digest, step.digest);
  EXPECT_EQ(s.sources, step.sources);
  EXPECT_EQ(std::tuple(m.evaluations[0].step, m.evaluations[0].loss, m.evaluations[0].sequences, m.evaluations[0].seconds),
            std::tuple(11, 2.25, 64, 1.5));
  EXPECT_EQ(std::tuple(m.checkpoints[0].step, m.checkpoints[0].bytes, m.checkpoints[0].seconds), std::tuple(11, 1 << 30, 2.5));
  const auto& f = m.forecasts[0];
  EXPECT_EQ(std::tuple(f.step, f.forecast_seconds, f.relative_error, f.measured_seconds, f.iterations, f.inside_error_bar),
            std::tuple(11, 0.5, 0.0625, 0.25, 18, true));
  EXPECT_EQ(std::tuple(m.stops[0].step, m.stops[0].exit_code, m.stops[0].reason),
            std::tuple(11, ExitCode::requeue, std::string{"SIGTERM"}));
  EXPECT_EQ(read_metrics(metrics_file(run)).steps.size(), 1u);
}

CorrectionRecord correction() {
  CorrectionRecord r{20, 18, 0.0713, 0.088, 0.0901, "profile-corrected.json", {}, 1000, 0};
  r.figures = {{"cpu \"x\"", "attention_forward", 2, 4, 0.01, 0.0129, 1.27, 1.31, 0.08, false},
               {"messages between hosts", "messages", 1, 1, 0.001, 0.0021, 2.04, 2.26, 0.08, false},
               {"cpu \"x\"", "mlp_forward", 2, 4, 0.01, 0.0134, 1.32, 1.36, 0.08, false},
               {"cpu \"x\"", "head_loss", 1, 4, 0.01, 0.0131, 1.29, 1.34, 0.08, true}};
  return r;
}

TEST(Metrics, ACorrectionReadsBackAsWritten) {
  const RunFolder run;
  MetricsWriter{run, 2}.write(correction());
  const auto m = read_metrics(run);
  ASSERT_EQ(m.corrections.size(), 1u);
  const auto &r = m.corrections[0], wanted = correction();
  EXPECT_EQ(r.figures, wanted.figures);
  EXPECT_EQ(std::tuple(r.step, r.iterations, r.forecast_seconds, r.corrected_seconds, r.measured_seconds, r.file, r.incarnation),
            std::tuple(20, 18, 0.0713, 0.088, 0.0901, std::string{"profile-corrected.json"}, 2));
  EXPECT_TRUE(r.used());
}

TEST(Metrics, ACorrectionHasALineForEachTypeAndKindOfLink) {
  const auto lines = wrong_figures_in_words(correction());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(
      lines[0],
      "cpu \"x\": operations take 1.29 to 1.34 times as long as in the profile (attention_forward 1.29, mlp_forward 1.34; quartiles 1.27 to "
      "1.36, error bar 8.0 %)");
  EXPECT_EQ(lines[1], "messages between hosts take 2.10 times as long as in the profile (quartiles 2.04 to 2.26, error bar 8.0 %)");
  auto record = correction();
  EXPECT_NE(correction_in_words(record).find("by the corrected profile"), std::string::npos);
  EXPECT_NE(correction_in_words(record).find("; profile-corrected.json"), std::string::npos);
  EXPECT_EQ(correction_in_short(record),
            "operations of cpu \"x\" take 1.3 times as long as in the profile, messages between hosts 2.1 times; the next start plans with "
            "profile-corrected.json");
  record.figures[1].measured_seconds = 0.05003;
  EXPECT_NE(correction_in_short(record).find("messages between hosts 50 times;"), std::string::npos) << "two digits";
  record.file.clear();
  EXPECT_NE(correction_in_short(record).find("the profile stays"), std::string::npos);
  EXPECT_NE(correction_in_words(record).find("not nearer"), std::string::npos);
}

TEST(Metrics, LossesReadBackToTheLastBit) {
  const RunFolder run;
  MetricsWriter writer{run, 1};
  std::mt19937_64 random{5};
  std::vector<double> losses{0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0};
  for (int i = 0; i < 200; ++i) losses.push_back(std::uniform_real_distribution<double>{0, 12}(random));
  for (const double loss : losses) writer.write(step_of(1, loss));
  const auto read = read_metrics(run).steps;
  ASSERT_EQ(read.size(), losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_EQ(read[i].loss, losses[i]);
}

TEST(Metrics, NotANumberSurvives) {
  const RunFolder run;
  MetricsWriter writer{run, 1};
  writer.write(step_of(1, std::numeric_limits<double>::quiet_NaN()));
  expect_contains(content(metrics_file(run)), "\"loss\": null");
  EXPECT_TRUE(std::isnan(read_metrics(run).steps[0].loss));
}

TEST(Metrics, FillsInTheTime) {
  const RunFolder run;
  MetricsWriter{run, 1}.write(StopRecord{1, ExitCode::done, "finished", 0, 0});
  EXPECT_GT(read_metrics(run).stops[0].time, 1.7e9);
}

TEST(Metrics, ATornLastLineIsReadOverAndRepairedAtEveryByte) {
  const RunFolder run;
  {
    MetricsWriter writer{run, 1};
    for (int step = 1; step <= 3; ++step) writer.write(step_of(step));
  }
  const auto whole = content(metrics_file(run));
  const auto second_end = whole.rfind('\n', whole.size() - 2) + 1;
  for (auto size = second_end; size < whole.size(); size += 5) {
    write(metrics_file(run), whole.substr(0, size));
    const auto torn = read_metrics(run);
    EXPECT_EQ(torn.steps.size(), 2u);
    EXPECT_EQ(torn.torn_bytes, static_cast<std::int64_t>(size - second_end));
    MetricsWriter writer{run, 2};
    EXPECT_EQ(writer.repaired_bytes(), static_cast<std::int64_t>(size - second_end));
    writer.write(step_of(3));
    const auto mended = read_metrics(run);
    EXPECT_EQ(mended.steps.size(), 3u);
    EXPECT_EQ(mended.torn_bytes, 0);
  }
}

TEST(Metrics, RepairsALongTornLineAndAFileOfNothingElse) {
  const RunFolder run;
  write(metrics_file(run), "{}\n" + std::string(10000, 'x'));
  EXPECT_EQ((MetricsWriter{run, 1}.repaired_bytes()), 10000);
  EXPECT_EQ(content(metrics_file(run)), "{}\n");
  write(metrics_file(run), std::string(5000, 'x'));
  EXPECT_EQ((MetricsWriter{run, 1}.repaired_bytes()), 5000);
  EXPECT_EQ(content(metrics_file(run)), "");
}

TEST(Metrics, AKilledWriterLosesNoFinishedLine) {
  const RunFolder run;
  Child child{[&] {
    MetricsWriter writer{run, 1};
    for (int step = 1;; ++step) {
      if (step > 20'000) pause();  // whoever is to kill it does not run: the disk is not ours alone
      writer.write(step_of(step));
    }
    return 0;
  }};
  wait_until([&] { return std::filesystem::exists(metrics_file(run)) && std::filesystem::file_size(metrics_file(run)) > 20000; });
  child.signal(SIGKILL);
  child.wait();
  const auto m = read_metrics(run);
  ASSERT_GT(m.steps.size(), 50u);
  for (std::size_t i = 0; i < m.steps.size(); ++i) ASSERT_EQ(m.steps[i].step, static_cast<std::int64_t>(i) + 1);
}

TEST(Metrics, ManyThreadsDoNotMixLines) {
  const RunFolder run;
  MetricsWriter writer{run, 1};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i) writer.write(step_of(i));
      });
    }
  }
  EXPECT_EQ(read_metrics(run).steps.size(), 400u);
}

/// Lets files of this process have so many bytes: like a disk that is nearly full.
void limit_files(rlim_t bytes) {
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) std::_Exit(2);
}

/// What a writer does on such a disk, in a process of its own; what that said.
template <class Work>
std::string on_full_disk(const RunFolder& run, Work work) {
  Child child{[&] {
    signal(SIGXFSZ, SIG_IGN);
    limit_files(1000);
    if (freopen((run / "stderr").c_str(), "w", stderr) == nullptr) return 3;
    MetricsWriter writer{run, 1};
    return work(writer) ? 0 : 1;
  }};
  EXPECT_EQ(child.wait(), 0);
  return content(run / "stderr");
}

TEST(Metrics, LinesWaitForRoomOnAFullDisk) {
  const RunFolder run;
  const auto said = on_full_disk(run, [](MetricsWriter& writer) {
    for (int step = 1; step <= 20; ++step) writer.write(step_of(step));
    limit_files(RLIM_INFINITY);
    writer.write(step_of(21));
    return writer.lost_lines() == 0;
  });
  expect_contains(said, "metrics.jsonl: a line could not be written: ");
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  const auto m = read_metrics(run);
  ASSERT_EQ(m.steps.size(), 21u);
  for (std::size_t i = 0; i < m.steps.size(); ++i) EXPECT_EQ(m.steps[i].step, static_cast<std::int64_t>(i) + 1);
}

TEST(Metrics, AFullDiskStopsNothing) {
  const RunFolder run;
  on_full_disk(run, [](MetricsWriter& writer) {
    for (int step = 1; step <= 10'020; ++step) writer.write(step_of(step));
    return writer.lost_lines() > 10;
  });
  const auto m = read_metrics(run);
  EXPECT_GE(m.steps.size(), 2u);
  EXPECT_EQ(m.torn_bytes, 0) << "a part of a line was left";
}

TEST(Metrics, CannotBeOpenedSaysWhy) {
  const RunFolder run;
  std::filesystem::create_directory(metrics_file(run));
  expect_contains(refusal(ErrorKind::unavailable, [&] { MetricsWriter(run, 1); }), metrics_file(run).string());
}

TEST(Metrics, ReaderIsStrictBeforeTheLastLineAndNamesIt) {
  const RunFolder run;
  std::string good;
  {
    MetricsWriter{run, 1}.write(step_of(1));
    good = content(metrics_file(run));
  }
  const auto refused = [&](const std::string& line) {
    write(metrics_file(run), good + line + "\n" + good);
    return refusal(ErrorKind::bad_input, [&] { read_metrics(run); });
  };
  for (const auto* line : {"", "{\"step\": 1", "[1, 2]", "{\"step\": 1}", "{\"step\": -1}", "{\"event\": 3}", "{\"event\": \"stop\"}"}) {
    expect_contains(refused(line), metrics_file(run).string() + ":2");
  }
  expect_contains(refusal(ErrorKind::no_input, [&] { read_metrics(run / "missing"); }), "missing: cannot be opened");
}

TEST(Metrics, RefusesNonsense) {
  const RunFolder run;
  const std::string step =
      R"("loss": 1, "tokens_per_second": 1, "share_of_peak": 1, "learning_rate": 1, "gradient_norm": 1, "eta_seconds": 1)";
  const auto refused = [&](const std::string& line) {
    write(metrics_file(run), line + "\n");
    return refusal(ErrorKind::bad_input, [&] { read_metrics(run); });
  };
  const std::string stamps = R"("step": 1, "time": 5, "incarnation": 1)";
  expect_contains(refused("{" + stamps + ", \"step_seconds\": -1, " + step + "}"), "/step_seconds");
  expect_contains(refused("{" + stamps + ", \"step_seconds\": 1e12, " + step + "}"), "/step_seconds");
  expect_contains(refused(R"({"event": "checkpoint", "step": 1, "time": 1e300, "incarnation": 1, "bytes": 1, "seconds": 1})"), "/time");
  expect_contains(refused(R"({"event": "checkpoint", "step": 1, "time": -1, "incarnation": 1, "bytes": 1, "seconds": 1})"), "/time");
  expect_contains(refused(R"({"event": "checkpoint", "step": 1, "time": 1, "incarnation": 2147483647, "bytes": 1, "seconds": 1})"),
                  "/incarnation");
  expect_contains(refused(R"({"event": "checkpoint", "step": 9e15, "time": 1, "incarnation": 1, "bytes": 1, "seconds": 1})"), "/step");
  expect_contains(refused(R"({"event": "stop", )" + stamps + R"(, "exit_code": -5, "reason": ""})"), "/exit_code");
  expect_contains(refused("{\"x\": \"" + std::string(2 << 20, 'x') + "\"}"), "line is longer");
}

TEST(Metrics, APipeOrALinkIsNoMetricsFile) {
  const RunFolder run, elsewhere;
  ASSERT_EQ(::mkfifo(metrics_file(run).c_str(), 0600), 0);
  expect_contains(refusal(ErrorKind::unavailable, [&] { MetricsWriter(run, 1); }), "no regular file");
  expect_contains(refusal(ErrorKind::bad_input, [&] { read_metrics(run); }), "not a regular file");
  std::filesystem::remove(metrics_file(run));
  write(elsewhere / "precious", "data without a line end");
  std::filesystem::create_symlink(elsewhere / "precious", metrics_file(run));
  expect_contains(refusal(ErrorKind::unavailable, [&] { MetricsWriter(run, 1); }), "symbolic link");
  EXPECT_EQ(content(elsewhere / "precious"), "data without a line end");
}

TEST(Metrics, ReaderPassesOverWhatALaterVersionAdds) {
  const RunFolder run;
  MetricsWriter{run, 1}.write(step_of(1));
  auto line = content(metrics_file(run));
  line.insert(1, "\"new_key\": [1, {\"a\": 2}], ");
  write(metrics_file(run), line + "{\"event\": \"of a later version\"}\n");
  EXPECT_EQ(read_metrics(run).steps.size(), 1u);
}

std::vector<std::pair<std::int64_t, double>> effective(const Metrics& metrics) {
  std::vector<std::pair<std::int64_t, double>> found;
  for (const auto& s : effective_steps(metrics)) found.emplace_back(s.step, s.loss);
  return found;
}

TEST(EffectiveSteps, AreThoseOfTheLastIncarnationThatDidThem) {
  const RunFolder run;
  {
    MetricsWriter writer{run, 1};
    writer.write(StartRecord{0, 4, "", "", "", 1, 0});
    for (int step = 1; step <= 6; ++step) writer.write(step_of(step, 1.0));
  }
  {
    MetricsWriter writer{run, 2};  // back to the checkpoint of step 4
    writer.write(StartRecord{4, 2, "", "", "", 2, 0});
    writer.write(step_of(5, 2.0));
  }
  using Steps = std::vector<std::pair<std::int64_t, double>>;
  EXPECT_EQ(effective(read_metrics(run)), (Steps{{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 2}}));
  {
    MetricsWriter writer{run, 3};  // killed before its first step
    writer.write(StartRecord{4, 2, "", "", "", 3, 0});
  }
  EXPECT_EQ(effective(read_metrics(run)), (Steps{{1, 1}, {2, 1}, {3, 1}, {4, 1}}));
  MetricsWriter{run, 1}.write(step_of(7, 9.0));  // an old incarnation wakes up and writes
  EXPECT_EQ(effective(read_metrics(run)), (Steps{{1, 1}, {2, 1}, {3, 1}, {4, 1}}));
}

TEST(EffectiveSteps, DoWithoutStartMarkers) {
  Metrics metrics;
  for (const auto& [step, incarnation] : {std::pair{1, 1}, {2, 1}, {3, 1}, {2, 2}, {3, 2}}) {
    auto record = step_of(step, incarnation);
    record.incarnation = incarnation;
    metrics.steps.push_back(record);
  }
  EXPECT_EQ(effective(metrics), (std::vector<std::pair<std::int64_t, double>>{{1, 1}, {2, 2}, {3, 2}}));
  EXPECT_TRUE(effective_steps({}).empty());
}

}  // namespace
}  // namespace flotilla::journal
