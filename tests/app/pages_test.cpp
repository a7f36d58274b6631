// Every page that a command writes, as a file and in a browser. FLOTILLA_PAGES is the folder that they and their pictures are left in.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "app/bench/bench_page.hpp"
#include "app/plan/planning.hpp"
#include "app/report/report.hpp"
#include "bench/made_up.hpp"
#include "flotilla/bench/fabric.hpp"
#include "flotilla/checkpoint/manifest.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/journal/metrics.hpp"
#include "support/child.hpp"
#include "support/temporary_folder.hpp"
#include "support/well_formed.hpp"

namespace flotilla::app {
namespace {

namespace fs = std::filesystem;
using tests::content;
using tests::TemporaryFolder;
using Words = std::vector<std::string>;

const std::string hostile = "</title><script>alert('n1')</script><img src=x onerror=alert(1)>\x1b[31m";

fs::path folder() {
  const fs::path path = FLOTILLA_PAGES;
  fs::create_directories(path);
  return path;
}

/// The page's text, once it is what every page has to be.
std::string checked(const fs::path& file) {
  const auto page = content(file);
  EXPECT_EQ(tests::why_not_well_formed(page), "") << file;
  EXPECT_NE(page.find("Content-Security-Policy"), std::string::npos);
  for (const char* reach : {"<script", "<img", "http://", "https://", " src=\"", " href=\"", "url("})
    EXPECT_EQ(page.find(reach), std::string::npos) << reach << " in " << file;
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
  return page;
}

void expect_parts(const std::string& page, const Words& parts) {
  for (const auto& part : parts) EXPECT_NE(page.find(part), std::string::npos) << part;
}

/// A run of many starts: most are saved and requeued, every fifth is killed and loses steps. One of its hosts has a hostile name.
void write_long_run(const fs::path& run, int starts) {
  double time = 1.7e9;
  std::int64_t saved = 0;
  for (int number = 1; number <= starts; ++number) {
    journal::MetricsWriter writer{run, number};
    const bool killed = number % 5 == 0 && number < starts;
    const auto first = saved;
    writer.write(journal::StartRecord{.step = first,
                                      .ranks = 12,
                                      .plan = "2 stages: [0,6) 2x tp1 mb4",
                                      .host = number == 3 ? hostile : "n1",
                                      .version = "x",
                                      .time = time + 8});
    writer.write(journal::DevicesRecord{.step = first,
                                        .launched = time,
                                        .origin = "searched",
                                        .devices = {{"A100-40", "a100", 4, 1}, {"V100-16", number == 3 ? hostile : "v100", 8, 2}},
                                        .time = time + 8});
    time += 40;
    for (auto step = first + 1; step <= first + 120; ++step, time += 2) {
      const auto at = static_cast<double>(step);
      const double noise = std::sin(at * 12.9898) * 0.06, seconds = 2 + 0.1 * std::sin(at / 7) + (step % 97 == 0 ? 1.5 : 0);
      writer.write(journal::StepRecord{.step = step,
                                       .loss = step == 300 ? std::nan("") : 2.1 + 7 / (1 + at / 90) + noise,
                                       .tokens_per_second = 65536 / seconds,
                                       .step_seconds = seconds,
                                       .share_of_peak = 0.41,
                                       .learning_rate = 3e-4,
                                       .gradient_norm = 1.2 + 3 / (1 + at / 50) + 5 * noise * noise,
                                       .time = time,
                                       .sources = {{"web", 2.3 + 7 / (1 + at / 90) + noise, 48}, {"<code>", 1.3 + 8 / (1 + at / 60), 16}}});
      if (step % 100 == 0)
        writer.write(journal::EvaluationRecord{.step = step,
                                               .loss = 2.2 + 7 / (1 + at / 90),
                                               .sequences = 64,
                                               .seconds = 9,
                                               .time = time,
                                               .sources = {{"web", 2.4 + 7 / (1 + at / 90)}, {"<code>", 1.4 + 8 / (1 + at / 60)}}});
      if (step % 60 == 0) writer.write(journal::CheckpointRecord{.step = step, .bytes = 1 << 20, .seconds = 4, .time = time});
      if (step == first + 20)
        writer.write(journal::ForecastRecord{.step = step,
                                             .forecast_seconds = 1.9,
                                             .relative_error = 0.08,
                                             .measured_seconds = 2.0,
                                             .iterations = 18,
                                             .inside_error_bar = true,
                                             .time = time});
    }
    if (number == 6)
      writer.write(journal::CorrectionRecord{.step = saved,
                                             .iterations = 18,
                                             .forecast_seconds = 1.9,
                                             .corrected_seconds = 2.02,
                                             .measured_seconds = 2,
                                             .file = "profile-corrected.json",
                                             .figures = {{hostile, "mlp_forward", 1, 4, 0.01, 0.0123, 1.2, 1.25, 0.08, false},
                                                         {"messages between hosts", "messages", 1, 1, 0.01, 0.02, 1.9, 2.2, 0.08, false}},
                                             .time = time});
    saved = killed ? first + 60 : first + 120;
    if (number == 4)
      writer.write(journal::SlowRecord{.step = saved, .rank = 3, .host = hostile, .factor = 1.6, .cost_seconds = 0.4, .time = time});
    if (number == 2)
      writer.write(journal::PlanRecord{
          .step = saved - 40, .plan = "1 stage", .reason = "n3 is slow", .moved_bytes = 1 << 30, .pause_seconds = 3, .time = time});
    if (!killed)
      writer.write(journal::StopRecord{saved, number == starts ? ExitCode::done : ExitCode::requeue,
                                       number == starts ? "finished" : "SIGUSR2: saved at step " + std::to_string(saved), time});
    time += 600 + 300 * (number % 4);
  }
}

/// A plan that `flotilla plan` finds for this pool, and its page.
std::string plan_page(const std::string& name, Words words, const fs::path& plan = {}) {
  const auto file = folder() / (name + ".html");
  words.push_back("--html=" + file.string());
  if (!plan.empty()) words.push_back("--write-plan=" + plan.string());
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(find_plan(words), 0);
  ::testing::internal::GetCapturedStdout();
  return checked(file);
}

std::string report_page(const std::string& name, const fs::path& run, Words words = {}) {
  const auto file = folder() / (name + ".html");
  words.insert(words.begin(), {run.string(), "--html=" + file.string()});
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(report_run(words), 0);
  ::testing::internal::GetCapturedStdout();
  return checked(file);
}

TEST(Pages, OfAPlan) {
  const auto page = plan_page(
      "plan", {"--model.name=opt-125m", "--training.global-batch=64", "--training.length=512", "--pool=A100-40@z1=4/4", "--pool=T4@z2=8/4",
               "--price=A100-40=3USD/h", "--price=T4=0.3USD/h", "--egress=z1:z2=0.01USD/GB", "--egress=z2:z1=0.01USD/GB", "--pareto"});
  expect_parts(page, {"Plan for opt-125m", "The plan", "stage 0", "One iteration as forecast", "micro-batch 0", "Where the time goes",
                      "Where the memory goes", "device has", "Time against cost", "this plan", "no plan in the search space"});
}

TEST(Pages, OfAPlanOfManyStages) {
  const auto page =
      plan_page("stages", {"--model.name=opt-350m", "--training.global-batch=64", "--training.length=512", "--pool=A100-40@z1=8/4",
                           "--pool=V100-16@z1=8/4", "--plan.pipeline=16", "--plan.data=1", "--plan.tensor=1", "--search.alternatives=2"});
  expect_parts(page, {"stage 15", "+head", "devices"});
}

TEST(Pages, OfALongRunWithHostileNames) {
  const TemporaryFolder run;
  write_long_run(run, 60);
  const auto page = report_page("long-run", run);
  expect_parts(page, {"60 incarnations", "Validation loss by source", "Training loss by source", "&lt;code&gt;", "&lt;script&gt;alert",
                      "killed without an exit status", "validation", "lost iterations", "iterations repeated", "SIGUSR2: saved at step 120",
                      "1.60 times as long as expected", "plan changed after iteration", "1.20 to 1.25", "messages between hosts",
                      "by the corrected profile", "No checkpoint says which plan the run has", "inside the error bar"});
}

/// With a checkpoint the plan is drawn, and forecast again with the profile that it was made with.
TEST(Pages, OfARunWithItsPlanAndTimeline) {
  const TemporaryFolder run;
  write_long_run(run, 3);
  const auto plan_file = run / "plan.json";
  plan_page("run-plan",
            {"--model.name=opt-125m", "--training.global-batch=32", "--training.length=256", "--pool=A100-40=2/2", "--plan.pipeline=2"},
            plan_file);
  fs::create_directories(run / "step-360");
  cluster::Profile profile;
  profile.device_types.emplace_back();
  profile.device_types.back().name = "A100-40";
  profile.device_types.back().memory = Bytes{40ll << 30};
  checkpoint::Manifest manifest;
  manifest.step = 360;
  manifest.plan = files::plan_to_json(files::read_plan(plan_file));
  manifest.profile = files::profile_to_json(profile);
  run.write("step-360/manifest.json", checkpoint::manifest_to_json(manifest));
  run.write("timeline.json", R"({"traceEvents": [
    {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "n1/0, stage 0"}},
    {"ph": "X", "pid": 0, "tid": 0, "ts": 0, "dur": 1000, "cat": "forward", "name": "f", "args": {"instruction": "block_forward", "microbatch": 0}},
    {"ph": "X", "pid": 0, "tid": 1, "ts": 900, "dur": 400, "cat": "activation_transfer", "name": "s", "args": {"instruction": "send", "microbatch": 0}},
    {"ph": "X", "pid": 0, "tid": 0, "ts": 1500, "dur": 2000, "cat": "backward", "name": "b", "args": {"instruction": "block_backward", "microbatch": 0}}]})");
  const auto page = report_page("run", run);
  expect_parts(page, {"The last iteration as measured", "n1/0, stage 0", "backward, micro-batch 0: 2.00 ms", "One iteration as forecast",
                      "Where the memory goes", "The plan"});
}

TEST(Pages, OfARunThatNeverStepped) {
  const TemporaryFolder run;
  journal::MetricsWriter{run, 1}.write(journal::StartRecord{.step = 0, .ranks = 1, .host = "n1", .time = 1.7e9});
  expect_parts(report_page("no-step", run), {"No iteration is complete"});
}

/// Links between nodes of four switches, by UCX and by the training's messages, in rounds and alone; one node's are slow.
void add_links(bench::BenchReport& report, std::size_t slow) {
  std::vector<bench::NodePlace> places;
  for (std::size_t n = 0; n < report.nodes.size(); ++n) {
    auto& node = report.nodes[n];
    node.partition = "cpu", node.network_switch = "leaf" + std::to_string(n % 4);
    places.push_back({node.host, node.partition, node.network_switch});
  }
  const auto pairs = bench::first_pairs(places);
  const auto add = [&](bench::NodePair pair, const char* transport, bool alone, double rate) {
    auto& link = report.links.emplace_back(bench::LinkReport{
        places.at(static_cast<std::size_t>(pair.a)).host, places.at(static_cast<std::size_t>(pair.b)).host, transport, alone, {}, ""});
    const bool is_slow = pair.a == static_cast<int>(slow) || pair.b == static_cast<int>(slow);
    const double reached = is_slow ? rate / 3 : rate * (1 + 0.02 * ((pair.a + pair.b) % 5));
    for (std::int64_t size = 8; size <= (alone ? 64 << 20 : 1 << 20); size *= alone ? 4 : 1 << 17) {
      const double seconds = 2e-6 + static_cast<double>(size) / reached;
      link.points.push_back({Bytes{size},
                             Seconds{seconds},
                             {static_cast<double>(size) / seconds},
                             {alone ? 1.8 * static_cast<double>(size) / seconds : 0},
                             {}});
    }
  };
  for (const auto& pair : pairs) add(pair, "", false, 12e9), add(pair, bench::training_transport, false, 9e9);
  for (const char* transport : {"", "tcp", bench::training_transport}) add(pairs.front(), transport, true, *transport == 't' ? 3e9 : 12e9);
  report.links.push_back({report.nodes[0].host, report.nodes[1].host, "rc", true, {}, "no such transport"});
}

void add_collectives(bench::BenchReport& report) {
  for (const auto& [level, name, ranks, seconds] :
       {std::tuple{"node", "n0", 8, 1e-4}, {"node", "n1", 8, 2e-4}, {"switch", "leaf0", 16, 3e-4}, {"all", "nodes", 64, 9e-4}})
    report.collectives.push_back(
        {level,
         name,
         ranks,
         {{Bytes{8}, Seconds{seconds / 10}}, {Bytes{1 << 20}, Seconds{seconds}}, {Bytes{16 << 20}, Seconds{10 * seconds}}},
         ""});
  report.collectives.push_back({"switch", "leaf1", 16, {}, "rank 17 on n17 adds wrongly"});
}

/// The first node of each of two types has trained two models; two nodes have worked for hours, of which one became hot and slow.
void add_load(bench::BenchReport& report) {
  const auto entry = [](const char* model, double measured, double forecast, double watts) {
    return bench::CardEntry{model,
                            "bf16",
                            1024,
                            16,
                            8,
                            "1 stage: [0,14) 8x tp1 mb2",
                            12,
                            measured,
                            forecast,
                            watts,
                            watts > 0 ? "processors and memory (RAPL)" : "this machine has no RAPL",
                            watts > 0 ? 48.0 : 0,
                            watts > 0 ? "" : "no job of Slurm",
                            Bytes{std::int64_t{300} << 30},
                            ""};
  };
  bench::add_card(report.nodes[0], {entry("gpt2", 52'000, 54'100, 740), entry("gpt2-medium", 18'300, 17'900, 760)});
  report.nodes[63].type = "1 x Xeon 8480C";
  auto refused = bench::CardEntry{};
  refused.model = "gpt2-medium", refused.refusal = "no plan fits: 12 GiB are missing " + hostile;
  bench::add_card(report.nodes[63], {entry("gpt2", 21'000, 20'400, 0), refused});
  for (const std::size_t n : {2u, 3u}) {
    bench::Soak soak{Seconds{7200}, Seconds{7200}, "time", 5'000'000, 0, {}, {}, n == 3 ? 40 : 0, 2, 0};
    for (int w = 1; w <= 400; ++w) {
      const double warm = 1 - std::exp(-w / 60.0), hot = n == 3 ? 0.2 * warm : 0;
      soak.windows.push_back({Seconds{18.0 * w}, 5000 / (1 + hot), Seconds{5e-3 * (1 + hot + 0.01 * std::sin(w * 1.7))}, 0.01,
                              45 + (n == 3 ? 50 : 25) * warm, 3e9});
    }
    report.nodes[n].soak = std::move(soak);
  }
}

/// A report, and those of the nights before it, in which one node became slower and slower.
BenchResult nightly(int nodes, int nights) {
  BenchResult result;
  for (int night = 0; night <= nights; ++night) {
    auto report = bench::tests::made_up_report(nodes, 0.01, static_cast<unsigned>(night));
    char date[32];
    std::snprintf(date, sizeof date, "2026-11-%02dT03:00:00Z", night + 1);
    report.measured_at = date;
    bench::tests::figure_of(report.nodes[5], "memory_bandwidth").value *= 1 - 0.03 * night;
    result.earlier.push_back(std::move(report));
  }
  result.report = std::move(result.earlier.back());
  result.earlier.pop_back();
  result.held_against = std::to_string(nights) + " earlier reports";
  result.baselines = bench::learn(result.earlier);
  return result;
}

std::string bench_page_of(const std::string& name, BenchResult result) {
  result.verdicts = bench::judge(result.report, result.baselines);
  const auto file = folder() / (name + ".html");
  std::ofstream{file} << bench_page(result);
  return checked(file);
}

TEST(Pages, OfManyNodesUnderTest) {
  auto result = nightly(64, 12);
  add_links(result.report, 9);
  add_collectives(result.report);
  add_load(result.report);
  result.report.nodes[7].host = hostile;
  result.report.lost = {{"n64", "disk"}};
  const auto page = bench_page_of("bench", std::move(result));
  expect_parts(page, {"Test of 64 nodes",
                      "1 more lost",
                      "&lt;script&gt;alert",
                      "n9: drain",
                      "NodeName=n64",
                      "memory bandwidth, 2 x AMD EPYC 9654",
                      "tolerance",
                      "Nodes beside their type",
                      "Bandwidth of pairs, UCX",
                      "Latency of pairs, UCX",
                      "What training gets of it",
                      "of 2016 pairs of nodes measured",
                      "Rate, n0 - ",
                      "no such transport",
                      "switch leaf0",
                      "rank 17 on n17 adds wrongly",
                      "12 earlier reports",
                      "The card",
                      "Training gpt2-medium",
                      "12 GiB are missing &lt;/title&gt;",
                      "energy is not known",
                      "Hours under load",
                      "A step while it lasted",
                      "Temperature while it lasted",
                      "its clock was lowered 40 times by heat"});
  EXPECT_LT(page.size(), 1'500'000u);
}

/// One node by itself has no links, no baselines and no history: no section says anything of them.
TEST(Pages, OfOneNodeUnderTest) {
  BenchResult result{bench::tests::made_up_report(1), {}, "nothing"};
  result.report.left_out = {"inside n0 by ucx: messages of 64.0 MiB"};
  const auto page = bench_page_of("bench-one", std::move(result));
  expect_parts(page, {"Test of n0", "None: all nodes are well.", "n0: ok", "Beside the catalogue", "Hardware threads", "thread 15",
                      ">measured<", ">catalogue<", "inside n0 by ucx: messages of 64.0 MiB"});
  for (const char* empty : {">worst<", ">on<", ">usual<", "of the usual", "Beside what is usual"})
    EXPECT_EQ(page.find(empty), std::string::npos) << empty;
  for (const char* absent : {"<h2>Links</h2>", "<h2>Collectives</h2>", "<h2>Earlier reports</h2>", "<h2>The card</h2>",
                             "<h2>Hours under load</h2>", "Nodes beside their type"})
    EXPECT_EQ(page.find(absent), std::string::npos) << absent;
}

/// With a history it stands beside that, too.
TEST(Pages, OfOneNodeBesideItsHistory) {
  auto result = nightly(6, 4);
  result.report.nodes.resize(1);
  const auto page = bench_page_of("bench-one-history", std::move(result));
  expect_parts(page, {"Beside the catalogue", "Beside what is usual", "Percent of the median of 4 earlier reports", ">usual<"});
}

/// A cluster's page stays what a browser shows.
TEST(Pages, OfThousandsOfNodesAreBounded) {
  auto result = nightly(2048, 1);
  add_links(result.report, 9);
  const auto page = bench_page_of("bench-many", std::move(result));
  expect_parts(page, {"Pairs of 96 of 2048 nodes are shown", "more nodes are well", "n9: drain"});
  EXPECT_LT(page.size(), 4'000'000u);
}

/// What is left in the folder, in a browser: light and wide, dark and as narrow as a phone.
class Browser : public ::testing::Test {
 protected:
  void SetUp() override {
    if (tests::run_line("command -v chromium").exit_code != 0) GTEST_SKIP() << "no chromium";
  }

  /// A page that shows the others, each in a frame of that width.
  static std::string frames(const Words& pages, int width, int height) {
    std::string out = "<!DOCTYPE html><html><body style=\"margin:0\">";
    for (const auto& page : pages)
      out += "<iframe src=\"" + page + "\" width=\"" + std::to_string(width) + "\" height=\"" + std::to_string(height) +
             "\" style=\"border:0;vertical-align:top\"></iframe>";
    return out + "</body></html>";
  }

  struct Visit {
    std::string console, requests;
  };
  /// Chromium's own requests reach nobody: no name has an address, and there is no network here.
  Visit visit(const fs::path& page, const std::string& picture, bool dark, int width, int height) {
    const auto line =
        "timeout 240 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --no-first-run --disable-background-networking"
        " --disable-component-update --disable-sync --disable-extensions --user-data-dir=" +
        (profile_ / "user").string() + " --log-net-log=" + (profile_ / "net.json").string() +
        " '--host-resolver-rules=MAP * ~NOTFOUND' --enable-logging=stderr --blink-settings=preferredColorScheme=" + (dark ? "0" : "1") +
        " --window-size=" + std::to_string(width) + "," + std::to_string(height) + " --screenshot=" + (folder() / picture).string() +
        " file://" + page.string();
    const auto run = tests::run_line(line);
    EXPECT_EQ(run.exit_code, 0) << run.output;
    EXPECT_GT(fs::file_size(folder() / picture), 2'000u);
    Visit visit;
    std::istringstream lines{run.output};
    for (std::string one; std::getline(lines, one);)
      if (one.find("CONSOLE") != std::string::npos) visit.console += one + "\n";
    // Requests that a page made are of the site that it is from; Chromium's own are of none.
    const auto log = content(profile_ / "net.json");
    const std::string of_page = "{site=file://", url = "\"url\":\"";
    for (std::size_t at = 0; (at = log.find(of_page, at)) != std::string::npos; ++at) {
      const auto begin = log.find(url, at) + url.size();
      const auto address = log.substr(begin, log.find('"', begin) - begin);
      if (!address.starts_with("file://")) visit.requests += address + "\n";
    }
    return visit;
  }

  TemporaryFolder profile_{fs::temp_directory_path()};
};

const Words all_pages{"plan.html", "stages.html", "long-run.html", "run.html", "bench.html"};

TEST_F(Browser, ShowsPagesWithoutAWordOrARequest) {
  for (const auto& page : all_pages)
    if (!fs::exists(folder() / page)) GTEST_SKIP() << page << " was not written in this run";
  std::ofstream{folder() / "light.html"} << frames(all_pages, 1000, 3600);
  std::ofstream{folder() / "dark.html"} << frames(all_pages, 390, 5200);
  for (const bool dark : {false, true}) {
    const auto seen = visit(folder() / (dark ? "dark.html" : "light.html"), dark ? "dark.png" : "light.png", dark, dark ? 1560 : 2000,
                            dark ? 5200 : 7200);
    EXPECT_EQ(seen.console, "");
    EXPECT_EQ(seen.requests, "");
  }
}

/// A page that does what ours must not: the test above would see it.
TEST_F(Browser, WouldSeeAWordAndARequest) {
  std::ofstream{profile_ / "loud.html"}
      << "<!DOCTYPE html><html><body><p>" << std::string(2000, 'x')
      << "</p><img src=\"http://127.0.0.1:9/x.png\"/><script>console.error('loud')</script></body></html>";
  const auto seen = visit(profile_ / "loud.html", "loud.png", false, 800, 600);
  EXPECT_NE(seen.console.find("loud"), std::string::npos);
  EXPECT_NE(seen.requests.find("http://127.0.0.1:9/x.png"), std::string::npos);
}

}  // namespace
}  // namespace flotilla::app
