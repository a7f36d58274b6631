#include "app/simulate/simulate.hpp"

#include <map>
#include <sstream>

#include "app/common/forecasting.hpp"
#include "app/documented.hpp"
#include "app/inspect/inspect.hpp"
#include "flotilla/files/forecast_file.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/journal/metrics.hpp"
#include "simulate/cluster_fixture.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

namespace flotilla::app {
namespace {

using tests::content;
using tests::error_of;
using tests::TemporaryFolder;

using Words = std::vector<std::string>;

constexpr int length = 64;

cluster::Profile library() {
  auto profile = fixture::uniform_cluster(1, 1, fixture::device_type("A", 50, 10));
  profile.devices.clear();
  profile.device_types.push_back(fixture::device_type("B", 100, 20));
  profile.device_types[0].usd_per_hour = 2, profile.device_types[1].usd_per_hour = 4;
  profile.device_types[1].per_node = 2;
  fixture::measure(profile, model::built_in("gpt2-mini"), length, Precision::fp32, {1, 2}, {1, 2, 4});
  return profile;
}

/// On types A and B by stage, not bound.
plan::Plan plan_of(int data, int pipeline, int tensor, int batch = 16) {
  auto plan = plan::even_plan(model::built_in("gpt2-mini"), length, batch, Precision::fp32, data, pipeline, tensor, 2);
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (auto& replica : plan.stages[s].replicas) {
      replica.devices.clear();
      replica.device_type = s % 2 == 0 ? "A" : "B";
    }
  return plan;
}

/// A folder with a plan and a library, and what the command says.
class Simulate : public testing::Test {
 protected:
  Simulate() {
    files::write_profile(folder_ / "library.json", library());
    put(plan_of(2, 2, 1));
  }
  void put(const plan::Plan& plan) { files::write_plan(folder_ / "plan.json", plan); }
  void put(const cluster::Profile& profile) { files::write_profile(folder_ / "library.json", profile); }

  Words words(const Words& more) const {
    Words all{(folder_ / "plan.json").string(), "--profiles", (folder_ / "library.json").string()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  int run(const Words& more = {}) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = simulate(words(more));
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return code;
  }
  files::Json json(const Words& more = {}) {
    Words all{"--format=json"};
    all.insert(all.end(), more.begin(), more.end());
    run(all);
    return files::Json::parse(out_, "stdout");
  }
  Error error_with(const Words& more) {
    return error_of([&] { simulate(words(more)); });
  }

  TemporaryFolder folder_;
  std::string out_, err_;
};

double sum_of(const files::Json& object) {
  double sum = 0;
  for (const auto& key : object.keys()) sum += object.get_double(key);
  return sum;
}

TEST_F(Simulate, JsonSums) {
  const auto f = json();
  EXPECT_EQ(err_, "");
  EXPECT_EQ(f.get_string("format"), "flotilla-forecast");
  const double iteration = f.get_double("iteration_seconds");
  EXPECT_GT(iteration, 0);
  EXPECT_NEAR(sum_of(f.at("breakdown")), iteration, 1e-9 * iteration);
  EXPECT_NEAR(f.get_double("iteration_seconds_high") * f.get_double("iteration_seconds_low"), iteration * iteration,
              1e-9 * iteration * iteration);
  EXPECT_GT(f.get_double("iteration_seconds_low"), 0);
  EXPECT_DOUBLE_EQ(f.at("throughput").get_double("tokens_per_second"), 16 * length / iteration);
  EXPECT_DOUBLE_EQ(f.get_double("cost_per_iteration_usd"), (2 * 2 + 2 * 4) * iteration / 3600);
  EXPECT_TRUE(f.get_bool("fits"));
  EXPECT_TRUE(f.at("why_not").is_null());
  int ranks = 0;
  std::int64_t most = 0;
  for (const auto& kind : f.at("kinds").items()) {
    ranks += kind.get_int("ranks");
    EXPECT_NEAR(sum_of(kind.at("breakdown")), iteration, 1e-9 * iteration);
    const auto peak = kind.at("memory").get_int64("peak_bytes");
    EXPECT_DOUBLE_EQ(sum_of(kind.at("memory")), 2.0 * static_cast<double>(peak));
    most = std::max(most, peak);
  }
  EXPECT_EQ(ranks, 4);
  EXPECT_EQ(f.get_int64("peak_memory_bytes"), most);
}

TEST_F(Simulate, AForecastReadsBackAsItWasWrittenAndInspectShowsIt) {
  run({"--format=json", "-o", (folder_ / "forecast.json").string()});
  EXPECT_EQ(out_, "");
  const auto written = content(folder_ / "forecast.json");
  EXPECT_EQ(files::forecast_to_json(files::forecast_from_json(written, "file")), written);
  run();
  const auto table = out_;
  testing::internal::CaptureStdout();
  EXPECT_EQ(inspect(Words{(folder_ / "forecast.json").string()}), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), table);
}

TEST_F(Simulate, EveryKeyIsDocumentedAndTheExampleReads) {
  const auto page = content(std::filesystem::path{FLOTILLA_SOURCE} / "docs/formats/forecast.md");
  auto profile = library();
  profile.device_types[0].memory = profile.device_types[1].memory = Bytes{json().get_int64("peak_memory_bytes") - 1};
  put(profile);
  expect_documented(page, json());
  EXPECT_TRUE(files::forecast_from_json(tests::json_block(page), "the page").fits());
}

TEST_F(Simulate, TheTableBeginsWithWhatCounts) {
  run();
  EXPECT_EQ(out_.rfind("iteration  ", 0), 0u) << out_;
  for (const char* part : {"\nspeed ", " tokens/s", "\nmemory ", " GiB to\n           spare\n", "\ncost ", "2 A, 2 B\n", "\n0       A ",
                           "\n1       B ", "mean"})
    EXPECT_NE(out_.find(part), std::string::npos) << part << "\n" << out_;
  std::istringstream lines{out_};
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST_F(Simulate, WhatDoesNotFitIsForecastExplainedAndEndsWith76) {
  auto profile = library();
  const auto f = json();
  profile.device_types[0].memory = profile.device_types[1].memory = Bytes{f.get_int64("peak_memory_bytes") - 1};
  put(profile);
  EXPECT_EQ(run({"--format=json"}), 76);
  const auto short_of = files::Json::parse(out_, "stdout");
  EXPECT_EQ(short_of.get_double("iteration_seconds"), f.get_double("iteration_seconds"));
  EXPECT_FALSE(short_of.get_bool("fits"));
  EXPECT_EQ(short_of.at("why_not").get_int64("over_bytes"), 1);
  EXPECT_FALSE(short_of.at("why_not").at("remedy").get_string("change").empty());
  EXPECT_EQ(files::forecast_to_json(files::forecast_from_json(out_, "stdout")), out_);
  EXPECT_EQ(run(), 76);
  EXPECT_NE(out_.find("\nfits       no: rank "), std::string::npos) << out_;
  EXPECT_NE(out_.find("fits with "), std::string::npos) << out_;
}

TEST_F(Simulate, SitesHaveTheirOwnPrices) {
  const auto f = json({"--price=A=5USD/h", "--price=B=1USD/h", "--billing", "A=16units/h", "--billing", "B=4units/h"});
  const double hours = f.get_double("iteration_seconds") / 3600;
  EXPECT_DOUBLE_EQ(f.get_double("device_usd"), (2 * 5 + 2 * 1) * hours);
  EXPECT_DOUBLE_EQ(f.get_double("billing_units"), (2 * 16 + 2 * 4) * hours);
  auto profile = library();
  profile.links.push_back(fixture::link(cluster::LinkLevel::wide, "x", "y", 1e-3, 1e7));
  put(profile);
  auto plan = plan_of(1, 2, 1);
  plan.stages[0].replicas[0].zone = "x", plan.stages[1].replicas[0].zone = "y";
  put(plan);
  EXPECT_TRUE(json().at("egress_usd").is_null());
  const auto priced = json({"--egress=x:y=0.5USD/GB", "--egress=y:x=0.5USD/GB"});
  EXPECT_GT(priced.get_double("egress_usd"), 0);
  EXPECT_DOUBLE_EQ(priced.get_double("cost_per_iteration_usd"), priced.get_double("device_usd") + priced.get_double("egress_usd"));
}

TEST_F(Simulate, ABoundPlanWithALibraryIsMovedToDevicesOfTheSameTypes) {
  const auto unbound = json().get_double("iteration_seconds");
  auto plan = plan_of(2, 2, 1);
  int rank = 0;
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas) replica.devices = {Rank{rank++}};
  put(plan);
  EXPECT_EQ(json().get_double("iteration_seconds"), unbound);
  EXPECT_NE(err_.find("lists no devices"), std::string::npos) << err_;
  auto probed = library();
  for (int r = 0; r < 4; ++r) probed.devices.push_back({Rank{r}, r < 2 ? "A" : "B", "h", "", r, 1});
  put(probed);
  EXPECT_GT(json().get_double("iteration_seconds"), 0);
  EXPECT_EQ(err_, "");
  probed.devices[3].type = "A";
  put(probed);
  EXPECT_NE(std::string{error_with({}).what()}.find("rank 3 is a 'A'"), std::string::npos);
  probed.devices.pop_back();
  put(probed);
  EXPECT_NE(std::string{error_with({}).what()}.find("bound to 4 ranks, the profile lists 3"), std::string::npos);
}

TEST_F(Simulate, RefusesWithOneLineThatHelps) {
  const std::pair<Words, std::string> usage[] = {
      {{"--price", "A=5"}, "expected the unit USD/h, got none"},
      {{"--price", "A=-5USD/h"}, "at least 0"},
      {{"--price", "=5USD/h"}, "write for example --price A100-40=2.50USD/h"},
      {{"--price", "C=5USD/h"}, "no such device type: 'C'"},
      {{"--billing", "A=5USD/h"}, "expected the unit units/h, got 'USD/h'"},
      {{"--egress", "a=5USD/GB"}, "two zones"},
      {{"--runtime", "megatron-deepsped"}, "write --simulate.runtime megatron-deepspeed"},
      {{"another.json"}, "expected one plan file to forecast, got 2"},
  };
  for (const auto& [more, what] : usage) {
    const auto error = error_with(more);
    EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
    EXPECT_NE(std::string{error.what()}.find(what), std::string::npos) << error.what();
    EXPECT_EQ(std::string{error.what()}.find('\n'), std::string::npos) << error.what();
  }
  EXPECT_EQ(error_with({"--timeline", "/nowhere/at/all.json"}).kind(), ErrorKind::unavailable);
  EXPECT_EQ(error_with({"--measured", (folder_ / "none").string()}).kind(), ErrorKind::no_input);
  auto plan = plan_of(2, 2, 1);
  plan.stages[1].replicas[1].device_type = "never-built";
  put(plan);
  const auto error = error_with({});
  EXPECT_EQ(error.kind(), ErrorKind::bad_input);
  EXPECT_NE(std::string{error.what()}.find("'never-built'"), std::string::npos) << error.what();
}

/// By process name: number of spans.
std::map<std::string, int> processes_of(const std::filesystem::path& file) {
  std::map<int, std::string> names;
  std::map<std::string, int> spans;
  for (const auto& event : files::Json::read(file).at("traceEvents").items()) {
    const int pid = event.get_int("pid");
    if (event.get_string("ph") == "M" && event.get_string("name") == "process_name") names[pid] = event.at("args").get_string("name");
    if (event.get_string("ph") != "X") continue;
    EXPECT_GE(event.get_double("dur"), 0);
    EXPECT_GE(event.get_double("ts"), 0);
    ++spans[names.at(pid)];
  }
  return spans;
}

TEST_F(Simulate, TheTimelineHasAProcessForEveryDevice) {
  const auto file = (folder_ / "timeline.json").string();
  run({"--timeline", file});
  const auto spans = processes_of(file);
  ASSERT_EQ(spans.size(), 4u);
  EXPECT_GT(spans.at("forecast: rank 0, stage 0, A"), 50);
  EXPECT_GT(spans.at("forecast: rank 3, stage 1, B"), 50);
  put(plan_of(40, 2, 1, 80));
  run({"--timeline", file});
  const auto kinds = processes_of(file);
  EXPECT_LT(kinds.size(), 64u);
  bool many = false;
  for (const auto& [name, count] : kinds) many = many || name.find(" like it, stage 0, A") != std::string::npos;
  EXPECT_TRUE(many);
}

TEST_F(Simulate, AMeasuredRunStandsBesideTheForecast) {
  const auto timeline = (folder_ / "timeline.json").string(), run_folder = (folder_ / "run").string();
  run({"--timeline", timeline});
  // What the trainer writes looks the same, with the ranks as processes.
  std::string measured = "{\"traceEvents\": [\n";
  for (int rank = 0; rank < 2; ++rank) {
    measured += text(R"({"ph": "M", "name": "process_name", "pid": )", rank, R"(, "tid": 0, "args": {"name": "rank on h"}},)", "\n");
    measured +=
        text(R"({"ph": "X", "name": "head_loss 5", "cat": "forward", "pid": )", rank,
             R"(, "tid": 0, "ts": 10.0, "dur": 1e6, "args": {"microbatch": 0, "instruction": "head_loss 5"}})", rank == 0 ? ",\n" : "\n");
  }
  std::filesystem::create_directory(run_folder);
  folder_.write("run/timeline.json", measured + "]}\n");
  {
    journal::MetricsWriter writer{run_folder, 1};
    for (int step = 1; step <= 6; ++step) {
      journal::StepRecord record;
      record.step = step;
      record.step_seconds = step <= 2 ? 9 : 0.5 * step;
      writer.write(record);
    }
  }
  run({"--timeline", timeline, "--measured", run_folder});
  EXPECT_NE(out_.find("2.25 s measured (median of 4 iterations)"), std::string::npos) << out_;
  EXPECT_NE(out_.find(" / 1000"), std::string::npos) << out_;
  const auto spans = processes_of(timeline);
  EXPECT_EQ(spans.size(), 6u);
  EXPECT_EQ(spans.at("measured: rank 1, rank on h"), 1);
  run({"--measured", run_folder + "/timeline.json"});
  EXPECT_NE(out_.find("1.00 s measured (median of 1 iteration)"), std::string::npos) << out_;
  put(plan_of(1, 1, 1));
  EXPECT_NE(std::string{error_with({"--measured", run_folder}).what()}.find("not the plan of that run"), std::string::npos);
}

TEST_F(Simulate, AHundredThousandDevices) {
  put(plan_of(12500, 4, 2, 50000));
  const auto f = json();
  EXPECT_EQ(f.get_int("devices"), 100000);
  int ranks = 0;
  for (const auto& kind : f.at("kinds").items()) ranks += kind.get_int("ranks");
  EXPECT_EQ(ranks, 100000);
  EXPECT_NEAR(sum_of(f.at("breakdown")), f.get_double("iteration_seconds"), 1e-9);
}

/// What is timed by the element is anybody's.
TEST(TimesOfAnotherModel, AreDroppedHalvesAmongThem) {
  const auto tiny = model::built_in("gpt2-tiny"), mini = model::built_in("gpt2-mini");
  cluster::Profile profile;
  profile.model_fingerprint = model::fingerprint(tiny, 16);
  for (const char* operation : {"mlp_forward", "mlp_backward_input", "head_backward_weights", "block_again", "adamw"})
    profile.operation_times.push_back({"x", operation, 1, 1, 16, Precision::fp32, Seconds{1}, 0});
  EXPECT_FALSE(drop_times_of_another_model(profile, tiny, 16));
  EXPECT_EQ(profile.operation_times.size(), 5u);
  EXPECT_TRUE(drop_times_of_another_model(profile, mini, 16));
  ASSERT_EQ(profile.operation_times.size(), 1u);
  EXPECT_EQ(profile.operation_times[0].operation, "adamw");
}

}  // namespace
}  // namespace flotilla::app
