#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "app/bench/bench_launch.hpp"
#include "app/bench/bench_text.hpp"
#include "app/bench/bench_time.hpp"
#include "app/common/job.hpp"
#include "bench/made_up.hpp"
#include "flotilla/files/json.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::app {
namespace {

using bench::tests::made_up_report;

LaunchVariables launched_with(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
}

slurm::SlurmAllocation two_nodes() { return {"7", {{"7", "cpu", {"n1", "n2"}}}, 1, "n2", {}}; }

BenchResult result_of(bench::BenchReport report) {
  BenchResult result{std::move(report), {}, "3 earlier reports"};
  result.verdicts = bench::judge(result.report, {});
  return result;
}

TEST(BenchLaunch, OfSrunKnowsTheNodesByName) {
  const auto launch = bench_launch(
      launched_with({{"SLURM_PROCID", "3"}, {"SLURM_LOCALID", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_NODES", "2"}}), two_nodes());
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.id, "7.0.1");
  EXPECT_EQ(launch.host, "n2");
  EXPECT_EQ(launch.partition, "cpu");
  EXPECT_EQ(launch.expected.hosts, (std::vector<std::string>{"n1", "n2"}));
}

TEST(BenchLaunch, OfAStepOnPartOfTheJobKnowsHowManyNodes) {
  const auto launch = bench_launch(launched_with({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_NODES", "1"}}), two_nodes());
  EXPECT_TRUE(launch.expected.hosts.empty());
  EXPECT_EQ(launch.expected.count, 1);
}

TEST(BenchLaunch, OfMpirunInsideAnAllocationIsMpirunsAffair) {
  const auto launch = bench_launch(launched_with({{"OMPI_COMM_WORLD_SIZE", "4"},
                                                  {"OMPI_COMM_WORLD_RANK", "2"},
                                                  {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                                  {"OMPI_MCA_orte_num_nodes", "2"},
                                                  {"PMIX_NAMESPACE", "1/2"},
                                                  {"SLURM_STEP_NUM_NODES", "1"}}),
                                   two_nodes());
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.id, "1-2");
  EXPECT_EQ(launch.expected.count, 2);
  tests::refusal([] { bench_launch(launched_with({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "two"}}), {}); });
}

TEST(BenchText, AllWellIsATableAndASummary) {
  const auto result = result_of(made_up_report(8));
  const auto words = bench_text(result, 80);
  EXPECT_NE(words.find("2 x AMD EPYC 9654, 8 nodes\n"), std::string::npos) << words;
  EXPECT_NE(words.find("8 nodes: 8 ok; held against 3 earlier reports\n"), std::string::npos) << words;
  EXPECT_EQ(findings_text(result.verdicts, 80), "");
}

TEST(BenchText, FindingsComeWithTheLineThatDrains) {
  auto report = made_up_report(8);
  report.nodes[2].cores[5].digest = "0";
  report.lost = {{"n9", "disk"}};
  const auto words = findings_text(result_of(report).verdicts, 80);
  EXPECT_EQ(words.find("n2: drain\n  hardware thread 5 gives other bits"), 0u) << words;
  EXPECT_NE(words.find("  scontrol update NodeName=n2 State=DRAIN"), std::string::npos) << words;
  EXPECT_NE(words.find("n9: drain\n"), std::string::npos) << words;
  EXPECT_EQ(words.find("n3"), std::string::npos) << words;
}

TEST(BenchJson, HoldsReportAndVerdicts) {
  auto report = made_up_report(3);
  report.nodes[1].failures = {{"disk", "full"}};
  const auto json = files::Json::parse(bench_json(result_of(report)), "the result");
  EXPECT_EQ(json.at("verdicts").items().at(1).get_string("verdict"), "drain");
  EXPECT_EQ(json.at("report").at("nodes").size(), 3u);
}

TEST(Prometheus, HasALineForEachFigureOfEachNode) {
  auto report = made_up_report(2, 0);
  report.nodes[0].figures.push_back({"tokens_per_second:gpt2", 812});
  report.nodes[1].host = "a\"b";
  const auto words = prometheus_text(result_of(report));
  EXPECT_NE(words.find("# TYPE flotilla_bench_memory_bandwidth_bytes_per_second gauge\n"), std::string::npos) << words;
  EXPECT_NE(words.find("flotilla_bench_matmul_fp32_flops{node=\"n0\",type=\"2 x AMD EPYC 9654\"} 9e+12\n"), std::string::npos) << words;
  EXPECT_NE(words.find("subject=\"gpt2\"} 812\n"), std::string::npos) << words;
  EXPECT_NE(words.find("flotilla_bench_verdict{node=\"a\\\"b\"} 0\n"), std::string::npos) << words;
}

/// A command whose parts take what they are told, by a clock of its own.
class Played {
 public:
  Played(Seconds budget, std::vector<int> stages, std::size_t models = 0)
      : time_{options(budget, std::move(stages)), models, Seconds{}, [this] { return clock_; }} {}
  /// The next part's share, and what it then takes.
  double part(double took) {
    const Seconds share = time_.next();
    clock_ += Seconds{took};
    return share.value;
  }
  double obedient_part() {
    const Seconds share = time_.next();
    clock_ += share;
    return share.value;
  }
  BenchTime& time() { return time_; }
  double clock() const { return clock_.value; }
  void pass(double seconds) { clock_ += Seconds{seconds}; }

 private:
  static BenchOptions options(Seconds budget, std::vector<int> stages) {
    BenchOptions o;
    o.budget = budget;
    o.stages = std::move(stages);
    return o;
  }
  Seconds clock_{};
  BenchTime time_;
};

TEST(BenchTime, PartsTakeTheWholeBudgetTogether) {
  for (const double budget : {6.0, 20.0, 600.0}) {
    Played played{Seconds{budget}, {0, 1, 2, 3}, 2};
    for (int part = 0; part < 4; ++part) EXPECT_GT(played.obedient_part(), 0) << part;
    EXPECT_LE(played.clock(), budget);
    EXPECT_GE(played.clock(), 0.9 * budget);
    EXPECT_EQ(played.time().overdrawn(), "");
  }
}

TEST(BenchTime, APartThatTakesLongerIsNamedAndTheOthersGiveWay) {
  Played played{Seconds{10}, {0, 1, 2}};
  const double share = played.part(6);
  EXPECT_LT(share, 6);
  EXPECT_LT(played.obedient_part() + played.obedient_part(), 4);
  EXPECT_EQ(played.time().overdrawn(), "") << "the budget was kept";
  played.pass(5);
  tests::expect_contains(played.time().overdrawn(), "took 14.7 s of a budget of 10.0 s: each node by itself 6.00 s of ");
}

TEST(BenchTime, WhatTheLauncherTakesToEndIsKeptBack) {
  EXPECT_EQ(end_of_launcher(launched_with({{"OMPI_COMM_WORLD_SIZE", "2"}})).value, 2);
  EXPECT_EQ(end_of_launcher(launched_with({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_MCA_odls_base_sigkill_timeout", "0"}})).value, 0);
  EXPECT_EQ(end_of_launcher(launched_with({{"SLURM_PROCID", "0"}})).value, 0);
  Played played{Seconds{10}, {0, 1}};
  played.obedient_part();
  played.time().ends_later(Seconds{2});
  played.obedient_part();
  EXPECT_LE(played.clock(), 8);
  EXPECT_GE(played.clock(), 7);
}

TEST(BenchTime, ABudgetThatIsTooShortIsSaidBefore) {
  EXPECT_EQ((Played{Seconds{20}, {0, 1, 2}}.time().too_short()), "");
  const auto said = Played{Seconds{2}, {0, 1, 2}}.time().too_short();
  tests::expect_contains(said, "--budget 2.00 s is less than the ");
  tests::expect_contains(said, "links 1.00 s");
}

TEST(BenchTime, ASoakComesOnTop) {
  Played played{Seconds{10}, {0, 1, 4}};
  played.obedient_part();
  played.pass(3600);
  played.time().soaked(Seconds{3600});
  played.obedient_part();
  EXPECT_GE(played.clock(), 3609);
  EXPECT_LE(played.clock(), 3610);
  EXPECT_EQ(played.time().overdrawn(), "");
}

TEST(BenchText, HasNoEmptyColumnsAndNamesWhatWasLeftOut) {
  auto report = made_up_report(1, 0);
  report.links = {{"n0", "n0", "mpi", true, {{{8}, {1e-6}, {1e6}, {2e6}, {}}}, ""}, {"n0", "n0", "rc", true, {}, "no such transport"}};
  report.left_out = {
      "inside n0 by mpi: messages of 32 B, 128 B, 512 B, 2.00 KiB, 8.00 KiB, 128 KiB, 512 KiB, 2.00 MiB, 8.00 MiB, 32.0 MiB, "
      "64.0 MiB"};
  const auto words = bench_text(result_of(report), 80);
  for (const char* part : {"measured", "catalogue", "no such transport", "left out for want of time", "64.0 MiB"})
    tests::expect_contains(words, part);
  for (const char* empty : {"worst", "usual", " put"}) EXPECT_EQ(words.find(empty), std::string::npos) << empty << " in:\n" << words;
}

/// What is known of the card stands in a table, what is not is said below it.
TEST(BenchText, HasTheCardAndTheSoak) {
  auto report = made_up_report(2, 0);
  bench::add_card(report.nodes[0],
                  {{"gpt2", "fp32", 1024, 16, 2, "1 stage", 9, 81'200, 90'000, 0, "this machine has no RAPL", 4, "", {1 << 30}, ""}});
  bench::CardEntry refused;
  refused.model = "gpt2-xl", refused.refusal = "no plan fits \x1b[31m";
  report.nodes[0].card.push_back(refused);
  report.nodes[1].soak = bench::Soak{{7200}, {60}, "SIGTERM", 1000, 0, {}, {}, {}, 3, 0};
  const auto words = bench_text(result_of(report), 100);
  for (const char* part :
       {"81.2 k", "90 k", "-9.8 %", "73.1 M", "1.00 GiB", "no plan fits", "energy is not known: this machine has no RAPL",
        "Slurm bills 4 units an hour", "gpt2 on n0: fp32, 16 sequences of 1024 tokens, 2 processes, median of 9 steps",
        "plan of gpt2 on n0: 1 stage", "SIGTERM", "corrected,", "too short"})
    EXPECT_NE(words.find(part), std::string::npos) << part << " in:\n" << words;
  EXPECT_EQ(words.find('\x1b'), std::string::npos);
  EXPECT_EQ(bench_text(result_of(made_up_report(2, 0)), 100).find("tokens/J"), std::string::npos);
}

/// A user's link stays a link; what it leads to is replaced. Run directories, which others may write in, refuse links (files::write_text).
TEST(Output, ReplacesWhatALinkLeadsTo) {
  const tests::TemporaryFolder folder;
  folder.write("nightly.json", "old");
  std::filesystem::create_symlink("nightly.json", folder / "latest.json");
  write_output({.file = (folder / "latest.json").string()}, "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "latest.json"));
  EXPECT_EQ(tests::content(folder / "nightly.json"), "new");
  std::filesystem::create_symlink("none", folder / "dangling");
  tests::expect_contains(tests::refusal(ErrorKind::unavailable, [&] { write_output({.file = (folder / "dangling").string()}, "new"); }),
                         "is a symbolic link");
  write_output({.file = "/dev/null"}, "x");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(Reframe, IsADictionaryOfPartitions) {
  auto report = made_up_report(3, 0);
  for (auto& node : report.nodes) node.partition = "cpu";
  const auto words = reframe_text(report, "daint");
  EXPECT_EQ(words.find("reference = {\n    'daint:cpu': {\n"), 0u) << words;
  EXPECT_NE(words.find("'memory_bandwidth': (7e+11, -0.1, None, 'B/s'),\n"), std::string::npos) << words;
  EXPECT_NE(words.find("'step': (0.004, None, 0.1, 's'),\n"), std::string::npos) << words;
}

TEST(Topology, NamesSwitchesThatAreKnownAndThoseThatWereMeasured) {
  auto report = made_up_report(5, 0);
  tests::expect_contains(tests::refusal(ErrorKind::usage, [&] { topology_text(report); }), "--stages 0,1");
  const auto link = [](const char* from, const char* to, double rate) {
    return bench::LinkReport{from, to, "", false, {{{8}, {1e-6}, {}, {}, {}}, {{1 << 20}, {}, {rate}, {}, {}}}, ""};
  };
  report.links = {link("n0", "n1", 10e9), link("n1", "n2", 2e9), link("n2", "n3", 10e9), link("n3", "n4", 2e9)};
  EXPECT_EQ(topology_text(report),
            "# Slurm's topology/tree, by flotilla bench of 2026-11-23T19:00:00Z\n"
            "SwitchName=leaf1 Nodes=n[0-1]  # measured\n"
            "SwitchName=leaf2 Nodes=n[2-3]  # measured\n"
            "SwitchName=leaf3 Nodes=n4  # measured: no other node at full rate\n"
            "SwitchName=core Switches=leaf[1-3]\n");
  for (auto& node : report.nodes) node.network_switch = "leaf1";
  report.nodes[4].network_switch = "core";
  EXPECT_EQ(topology_text(report),
            "# Slurm's topology/tree, by flotilla bench of 2026-11-23T19:00:00Z\n"
            "SwitchName=core Nodes=n4\nSwitchName=leaf1 Nodes=n[0-3]\nSwitchName=core1 Switches=core,leaf1\n");
}

TEST(Changes, SayHowManyWereCompared) {
  const auto before = made_up_report(2, 0);
  auto after = before;
  bench::tests::figure_of(after.nodes[0], "step").value *= 3;
  const auto words = changes_text(bench::compare(before, after), 80);
  EXPECT_EQ(words.find("n0: known-answer step 12.0 ms, was 4.00 ms: 200 % worse\n"), 0u) << words;
  EXPECT_NE(words.find("\nfigure "), std::string::npos) << words;
  EXPECT_NE(words.find("\nstep               2  n0        4.00 ms     12.0 ms  200 % worse\n"), std::string::npos) << words;
  EXPECT_EQ(std::ranges::count(words, '\n'), 1 + 1 + 2 + 7 + 1 + 1) << "a line for the change, a row for each of seven figures\n" << words;
  EXPECT_NE(words.find("3.00 GB/s         none\n"), std::string::npos) << words;
  EXPECT_NE(words.find("14 figures compared, 1 change for the worse beyond tolerance\n"), std::string::npos) << words;
}

}  // namespace
}  // namespace flotilla::app
