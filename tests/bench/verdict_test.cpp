#include <gtest/gtest.h>

#include <functional>

#include "flotilla/base/error.hpp"
#include "made_up.hpp"

namespace flotilla::bench {
namespace {

using tests::figure_of;
using tests::made_up_report;
using tests::property_of;

/// Each node with four GPUs, which are held against each other across and within nodes.
BenchReport with_gpus(int nodes) {
  auto report = made_up_report(nodes);
  for (auto& node : report.nodes)
    for (int gpu = 0; gpu < 4; ++gpu) {
      const auto device = numbered_device("NVIDIA H100", gpu);
      node.figures.push_back({"gpu_matmul_bf16:" + device, 600e12});
      node.figures.push_back({"gpu_memory:" + device, 79e9});
      node.answers.push_back({"bf16, cuBLASLt 13.1.0, " + device, "00000000000000aa"});
    }
  return report;
}

TEST(Gpus, OfOneNodeAreHeldAgainstEachOther) {
  auto report = with_gpus(1);
  EXPECT_TRUE(judge(report, {}).front().reasons.empty());
  figure_of(report.nodes[0], "gpu_matmul_bf16:NVIDIA H100 #2").value *= 0.6;
  report.nodes[0].answers.back().digest = "00000000000000ab";
  const auto reasons = judge(report, {}).front().reasons;
  ASSERT_EQ(reasons.size(), 2u);
  EXPECT_EQ(
      reasons[0].what,
      "the training step (bf16, cuBLASLt 13.1.0, NVIDIA H100 #3) gives 00000000000000ab, where 3 GPUs of its type give 00000000000000aa");
  EXPECT_EQ(reasons[1].grade, Grade::drain);
  EXPECT_EQ(reasons[1].what.find(
                "GPU matrix products, bf16 of NVIDIA H100 #2 360 TFLOP/s, 40 % worse than 600 TFLOP/s (median of 4 GPUs of its type"),
            0u)
      << reasons[1].what;
}

TEST(Gpus, WithMemoryThatAnotherProgramHoldsAreNamed) {
  auto report = with_gpus(3);
  figure_of(report.nodes[1], "gpu_memory:NVIDIA H100 #0").value = 40e9;
  const auto verdicts = judge(report, {});
  EXPECT_EQ(verdicts[0].grade, Grade::ok);
  EXPECT_EQ(verdicts[1].grade, Grade::drain);
  EXPECT_EQ(verdicts[1].reasons.at(0).what.find("free GPU memory of NVIDIA H100 #0 "), 0u) << verdicts[1].reasons[0].what;
}

TEST(Gpus, LearnFromEarlierReportsWhateverTheirNumber) {
  const std::vector<BenchReport> history{with_gpus(2)};
  const auto baselines = learn(history);
  const auto* baseline = find_baseline(baselines, history[0].nodes[0].type, "gpu_memory:NVIDIA H100 #7");
  ASSERT_NE(baseline, nullptr);
  EXPECT_EQ(baseline->samples, 8);
  EXPECT_EQ(baseline->figure, "gpu_memory:NVIDIA H100");
  EXPECT_EQ(without_device_number("step"), "step");
  EXPECT_EQ(without_device_number("tokens_per_second:a #model"), "tokens_per_second:a #model");
}

struct Fault {
  std::string name;
  std::function<void(NodeReport&)> plant;
  std::string check;
  Grade grade;
};

std::vector<Fault> faults() {
  const auto times = [](const char* figure, double factor) { return [=](NodeReport& n) { figure_of(n, figure).value *= factor; }; };
  const auto is = [](const char* name, const char* value) { return [=](NodeReport& n) { property_of(n, name).value = value; }; };
  return {{"slow core", [](NodeReport& n) { n.cores[7].step = n.cores[7].step * 1.5; }, "slow core", Grade::drain},
          {"somewhat slow core", [](NodeReport& n) { n.cores[7].step = n.cores[7].step * 1.22; }, "slow core", Grade::watch},
          {"a core's bits", [](NodeReport& n) { n.cores[3].digest = "00000000000000c1"; }, "known answer", Grade::drain},
          {"bits that change", [](NodeReport& n) { n.cores[3].digest += ", not always"; }, "known answer", Grade::drain},
          {"flipped bit in a step", [](NodeReport& n) { n.answers[1].digest = "fedcba9876543211"; }, "known answer", Grade::drain},
          {"capped clock", times("matmul_fp32", 0.7), "matmul_fp32", Grade::drain},
          {"a slower clock", times("matmul_bf16", 0.88), "matmul_bf16", Grade::watch},
          {"slow steps", times("step", 1.5), "step", Grade::drain},
          {"a channel of memory less", times("memory_bandwidth", 0.85), "memory_bandwidth", Grade::watch},
          {"a module of memory less", times("memory", 23.0 / 24), "memory", Grade::drain},
          {"slow disk", times("disk_write", 0.15), "disk_write", Grade::drain},
          {"full disk",
           [](NodeReport& n) {
             n.failures.push_back({"disk", "only 12 MiB are free on the file system of /scratch"});
           },
           "disk", Grade::drain},
          {"a socket less", is(property::sockets, "1"), property::sockets, Grade::drain},
          {"wrong binding", is(property::usable_threads, "1"), property::usable_threads, Grade::watch},
          {"low memlock", is(property::memlock, "64 KiB"), property::memlock, Grade::watch},
          {"governor", is("governor", "powersave"), "governor", Grade::watch},
          {"no InfiniBand", is(property::rdma, property::none), property::rdma, Grade::drain},
          {"half of InfiniBand", is(property::rdma, "mlx5_0 200 Gb/sec"), property::rdma, Grade::drain},
          {"skewed clock", [](NodeReport& n) { n.clock_error = -7; }, "clock", Grade::watch},
          {"clock of another day", [](NodeReport& n) { n.clock_error = 86400; }, "clock", Grade::drain},
          {"clock on its own", [](NodeReport& n) { n.clock_synchronized = false; }, "clock", Grade::watch}};
}

void expect_found(const BenchReport& report, const std::string& host, const Fault& fault) {
  for (const auto& verdict : judge(report, {})) {
    if (verdict.host != host) {
      EXPECT_EQ(verdict.grade, Grade::ok) << fault.name << ": " << verdict.host << ": " << verdict.reasons.front().what;
      continue;
    }
    EXPECT_EQ(verdict.grade, fault.grade) << fault.name;
    ASSERT_FALSE(verdict.reasons.empty()) << fault.name;
    EXPECT_EQ(verdict.reasons.front().check, fault.check) << fault.name << ": " << verdict.reasons.front().what;
  }
}

TEST(Judge, NamesEveryPlantedFaultAmong64Nodes) {
  unsigned seed = 0;
  for (const auto& fault : faults()) {
    auto report = made_up_report(64, 0.01, ++seed);
    fault.plant(report.nodes[seed]);
    expect_found(report, report.nodes[seed].host, fault);
  }
}

TEST(Judge, NamesEveryPlantedFaultAmong4096Nodes) {
  const auto sound = made_up_report(4096, 0.01, 5);
  std::size_t at = 4000;
  for (const auto& fault : faults()) {
    auto report = sound;
    fault.plant(report.nodes[at]);
    expect_found(report, report.nodes[at].host, fault);
    at -= 191;
  }
}

TEST(Judge, FindsNothingIn50CleanRuns) {
  for (unsigned seed = 100; seed < 150; ++seed)
    for (const auto& verdict : judge(made_up_report(64, 0.02, seed), {}))
      EXPECT_EQ(verdict.grade, Grade::ok) << "seed " << seed << ", " << verdict.host << ": " << verdict.reasons.front().what;
}

/// Other programs on all nodes: times scatter by half, and no node is slow for it. What no time decides is found as ever.
TEST(Judge, TimesOfBusyNodesNameNobody) {
  for (unsigned seed = 200; seed < 250; ++seed) {
    auto report = made_up_report(64, 0.5, seed);
    for (auto& node : report.nodes) {
      node.others = 0.4;
      for (auto& core : node.cores) core.step = {std::min(core.step.value, 9e-3) + 5e-3};
    }
    report.nodes[9].answers[0].digest = "0000000000000000";
    for (const auto& verdict : judge(report, {})) {
      EXPECT_EQ(verdict.grade, verdict.host == "n9" ? Grade::drain : Grade::watch);
      for (const auto& reason : verdict.reasons)
        EXPECT_EQ(reason.check, reason.grade == Grade::drain ? "known answer" : "busy")
            << "seed " << seed << ", " << verdict.host << ": " << reason.what;
    }
  }
}

TEST(Judge, ABusyNodeIsNotJudgedAndMakesNoBaseline) {
  auto report = made_up_report(8);
  report.nodes[3].others = 0.25;
  figure_of(report.nodes[3], "matmul_fp32").value /= 3;
  figure_of(report.nodes[3], "memory").value *= 23.0 / 24;
  const auto verdict = judge(report, {})[3];
  ASSERT_EQ(verdict.reasons.size(), 2u);
  EXPECT_EQ(verdict.reasons[0].check, "memory") << "no program makes a module disappear";
  EXPECT_EQ(verdict.reasons[1].what, "busy, its times are not judged: other programs took 25 % of its processors while it was tested");
  EXPECT_EQ(verdict.reasons[1].grade, Grade::watch);
  const std::vector<BenchReport> history{report};
  for (const auto& baseline : learn(history).figures) EXPECT_EQ(baseline.samples, baseline.figure == "memory" ? 8 : 7) << baseline.figure;
  report.nodes[3].others = 0.05;
  EXPECT_EQ(judge(report, {})[3].grade, Grade::drain) << "a little of others explains nothing";
  auto after = report;
  after.nodes[3].others = 0.3;
  figure_of(after.nodes[3], "step").value *= 2;
  for (const auto& change : compare(report, after)) EXPECT_FALSE(change.beyond) << change.in_words;
}

TEST(Judge, ADiskThatNoCompanyExplainsIsSlowOnABusyNode) {
  auto report = made_up_report(6);
  for (auto& node : report.nodes) node.others = 0.5;
  figure_of(report.nodes[2], "disk_write").value /= 6;
  EXPECT_EQ(judge(report, {})[2].reasons.size(), 1u);
  figure_of(report.nodes[2], "disk_write").value /= 6;
  EXPECT_EQ(judge(report, {})[2].reasons.front().check, "disk_write");
  EXPECT_EQ(judge(report, {})[2].grade, Grade::drain);
}

TEST(Judge, RatesOfABusyNodesProcessorsAreHeldAgainstTheShareThatOthersLeft) {
  auto report = made_up_report(6);
  for (auto& node : report.nodes) node.others = 0.92;
  figure_of(report.nodes[2], "matmul_fp32").value /= 11;  // as once measured on a sound node
  EXPECT_EQ(judge(report, {})[2].reasons.size(), 1u) << "busy, no more";
  for (auto& node : report.nodes) node.others = 0.25;
  EXPECT_EQ(judge(report, {})[2].reasons.size(), 1u);
  figure_of(report.nodes[2], "matmul_fp32").value /= 2;
  EXPECT_EQ(judge(report, {})[2].reasons.front().check, "matmul_fp32");
}

TEST(Judge, ACoreThatNoCompanyExplainsIsSlowOnABusyNode) {
  auto report = made_up_report(4);
  for (auto& node : report.nodes) node.others = 0.5;
  report.nodes[2].cores[1].step = report.nodes[2].cores[1].step * 1.7;
  EXPECT_EQ(judge(report, {})[2].reasons.size(), 1u);
  report.nodes[2].cores[1].step = report.nodes[2].cores[1].step * 2;
  EXPECT_EQ(judge(report, {})[2].reasons.front().check, "slow core");
}

TEST(Judge, OneNodeIsHeldAgainstItsHistory) {
  std::vector<BenchReport> history;
  for (unsigned seed = 0; seed < 10; ++seed) history.push_back(made_up_report(1, 0.01, seed));
  const auto learned = learn(history);
  auto today = made_up_report(1, 0.01, 77);
  EXPECT_EQ(judge(today, learned).front().grade, Grade::ok);
  figure_of(today.nodes[0], "matmul_fp32").value *= 0.5;
  today.nodes[0].answers[0].digest = "0000000000000000";
  const auto verdict = judge(today, learned).front();
  EXPECT_EQ(verdict.grade, Grade::drain);
  ASSERT_EQ(verdict.reasons.size(), 2u);
  EXPECT_EQ(verdict.reasons[0].check, "known answer");
  EXPECT_EQ(verdict.reasons[1].check, "matmul_fp32");
  EXPECT_NE(verdict.reasons[1].what.find("median of 10 earlier nodes"), std::string::npos) << verdict.reasons[1].what;
  EXPECT_EQ(judge(today, {}).front().grade, Grade::ok) << "nothing to hold it against";
}

TEST(Judge, OtherSoftwareMayGiveOtherBits) {
  const std::vector<BenchReport> history{made_up_report(8)};
  auto today = made_up_report(8);
  for (auto& node : today.nodes) {
    property_of(node, property::software).value = "a newer oneDNN";
    node.answers[0].digest = "1111111111111111";
  }
  for (const auto& verdict : judge(today, learn(history))) EXPECT_EQ(verdict.grade, Grade::ok);
}

TEST(Judge, TwoThatDisagreeAreBothWatched) {
  auto report = made_up_report(2);
  report.nodes[1].answers[0].digest = "1111111111111111";
  for (const auto& verdict : judge(report, {})) EXPECT_EQ(verdict.grade, Grade::watch);
}

TEST(Judge, LostNodesAreNamedWithWhatTheyWereDoing) {
  auto report = made_up_report(3);
  report.lost = {{"n7", "disk"}, {"n8", ""}};
  const auto verdicts = judge(report, {});
  ASSERT_EQ(verdicts.size(), 5u);
  EXPECT_EQ(verdicts[3].host, "n7");
  EXPECT_EQ(verdicts[3].grade, Grade::drain);
  EXPECT_NE(verdicts[3].reasons.front().what.find("disk"), std::string::npos);
  EXPECT_EQ(drain_line(verdicts[4]),
            "scontrol update NodeName=n8 State=DRAIN Reason=\"flotilla bench: no report, and it was never heard of\"");
}

TEST(Tolerance, GrowsWithTheScatterOfTheBaseline) {
  const auto& kind = kind_of("memory_bandwidth");
  EXPECT_DOUBLE_EQ(tolerance(kind, {"", "", 100, 1, 10}), kind.tolerance);
  EXPECT_NEAR(tolerance(kind, {"", "", 100, 10, 10}), 3 * 1.4826 * 0.1, 1e-12);
}

TEST(Learn, TakesMedianAndDeviation) {
  std::vector<BenchReport> history(3, made_up_report(1, 0));
  for (int r = 0; r < 3; ++r) history[static_cast<std::size_t>(r)].nodes[0].figures = {{"step", 1.0 + r}};
  const auto learned = learn(history);
  ASSERT_EQ(learned.figures.size(), 1u);
  EXPECT_EQ(learned.figures[0], (Baseline{history[0].nodes[0].type, "step", 2, 1, 3}));
  EXPECT_TRUE(learn(std::span{history}.first(2)).figures.empty()) << "two samples are no baseline";
}

TEST(DrainLine, IsOneShellCommandWhateverTheReason) {
  const NodeVerdict verdict{"n3", Grade::drain, {{Grade::drain, "disk", "a \"b\" $(reboot) `c` \\ \n d" + std::string(500, 'x')}}};
  const auto line = drain_line(verdict);
  EXPECT_EQ(std::count(line.begin(), line.end(), '"'), 2);
  EXPECT_EQ(line.find_first_of("$`\\\n"), std::string::npos) << line;
  EXPECT_LT(line.size(), 300u);
}

TEST(Compare, NamesWhatGotSlowerWorstFirst) {
  const auto before = made_up_report(4, 0);
  auto after = before;
  figure_of(after.nodes[1], "memory_bandwidth").value *= 0.8;
  figure_of(after.nodes[2], "step").value *= 2;
  figure_of(after.nodes[0], "matmul_fp32").value *= 1.3;
  after.nodes.pop_back();
  const auto changes = compare(before, after);
  std::vector<std::string> beyond;
  for (const auto& change : changes)
    if (change.beyond) beyond.push_back(change.host + " " + change.what);
  EXPECT_EQ(beyond, (std::vector<std::string>{"n2 step", "n1 memory_bandwidth", "n3 node"}));
  EXPECT_NEAR(changes[0].worse, 1, 1e-12);
  EXPECT_NE(changes[0].in_words.find("100 % worse"), std::string::npos) << changes[0].in_words;
  for (const auto& change : compare(before, before)) EXPECT_FALSE(change.beyond);
}

TEST(Compare, OtherBitsUnderTheSameSoftwareAreAChange) {
  const auto before = made_up_report(1, 0);
  auto after = before;
  after.nodes[0].answers[0].digest = "1111111111111111";
  EXPECT_EQ(compare(before, after).front().what, "known answer");
  property_of(after.nodes[0], property::software).value = "newer";
  EXPECT_NE(compare(before, after).front().what, "known answer");
}

TEST(Figures, AreSpelledWithTheirUnits) {
  EXPECT_EQ(in_words({"memory_bandwidth", 4.1e10}), "memory bandwidth 41.0 GB/s");
  EXPECT_EQ(in_words({"matmul_fp32", 9.13e12}), "matrix products, fp32 9.13 TFLOP/s");
  EXPECT_EQ(in_words({"tokens_per_second:gpt2", 812}), "training of gpt2 812 tokens/s");
  EXPECT_THROW(kind_of("warp_speed"), Error);
}

}  // namespace
}  // namespace flotilla::bench
