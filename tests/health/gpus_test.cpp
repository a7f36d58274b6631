// GPUs of a node by themselves. CTest runs these on stand-in devices; elsewhere they skip where there is no GPU.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "flotilla/bench/verdict.hpp"
#include "flotilla/gpu/driver.hpp"
#include "flotilla/health/node_test.hpp"
#include "flotilla/health/soak.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::health {
namespace {

using tests::TemporaryFolder;

bench::NodeReport tested() {
  const TemporaryFolder folder;
  NodeTest test;
  test.host = "n1";
  test.disk = folder.path();
  test.disk_size = {1 << 20};
  test.budget = {0.5};
  return test_node(test);
}

/// Until there is what was looked for, or five minutes.
bench::Soak soaked(const std::function<bool(const bench::Soak&)>& enough) {
  SoakTest test;
  test.length = {300};
  bool ended = false;
  test.progress = [&](const bench::Soak& soak) { ended = enough(soak); };
  test.stopped = [&] { return ended ? std::optional<std::string>{"enough"} : std::nullopt; };
  return soak(test);
}

std::vector<std::string> drained(const bench::NodeReport& node) {
  bench::BenchReport report;
  report.nodes = {node};
  std::vector<std::string> reasons;
  const auto verdicts = bench::judge(report, {});
  for (const auto& reason : verdicts.front().reasons)
    if (reason.grade == bench::Grade::drain) reasons.push_back(reason.what);
  return reasons;
}

class Gpus : public testing::Test {
 protected:
  void SetUp() override {
    if (!gpu::presence().any()) GTEST_SKIP() << gpu::presence().why_none;
  }
};

TEST_F(Gpus, AreMeasuredAndGiveTheSameBits) {
  const auto report = tested();
  EXPECT_TRUE(report.failures.empty()) << report.failures.front().test << ": " << report.failures.front().reason;
  std::set<std::string> digests;
  for (const auto& device : gpu::presence().devices) {
    const auto subject = bench::numbered_device(device.name, device.ordinal);
    for (const char* kind : {"gpu_memory", "gpu_memory_bandwidth", "gpu_matmul_fp32", "gpu_copy_in", "gpu_copy_out"})
      EXPECT_NE(find_figure(report, kind + (":" + subject)), nullptr) << kind << " of " << subject;
    for (const auto& answer : report.answers)
      if (answer.name.starts_with("fp32") && answer.name.ends_with(subject.substr(subject.rfind(' ')))) digests.insert(answer.digest);
  }
  EXPECT_EQ(digests.size(), 1u);
}

TEST_F(Gpus, ComputeTheSameUnderLoad) {
  const auto soak = soaked([](const auto& s) { return !s.windows.empty() && s.windows.back().gpu_steps > 0; });
  EXPECT_EQ(soak.gpus, static_cast<int>(gpu::presence().devices.size()));
  EXPECT_EQ(soak.wrong_steps, 0);
  ASSERT_FALSE(soak.windows.empty());
  EXPECT_TRUE(soak.gpu_uncorrected.has_value());
}

// FLOTILLA_STANDIN_WRONG=1, of three devices.
TEST_F(Gpus, WithAFlippedBitAreNamed) {
  const auto reasons = drained(tested());
  int other_bits = 0;
  for (const auto& reason : reasons)  // stand-in devices may also differ by time
    if (reason.find(" gives ") != std::string::npos) {
      EXPECT_NE(reason.find("#1) gives "), std::string::npos) << reason;
      ++other_bits;
    }
  EXPECT_EQ(other_bits, 2) << "in fp32 and in bf16: " << testing::PrintToString(reasons);
  const auto soak = soaked([](const auto& s) { return s.wrong_steps > 0; });
  EXPECT_GT(soak.wrong_steps, 0);
  ASSERT_FALSE(soak.wrong.empty());
  for (const auto& wrong : soak.wrong) EXPECT_EQ(wrong.device.find("GPU 1 ("), 0u) << wrong.device;
}

// FLOTILLA_STANDIN_FAULTS=launch@20=719: the first device fails.
TEST_F(Gpus, ThatFailAreNamedAndTheProcessorsAreTested) {
  const auto report = tested();
  EXPECT_TRUE(report.done);
  ASSERT_FALSE(report.failures.empty());
  EXPECT_EQ(report.failures[0].test.find("GPU 0 ("), 0u) << report.failures[0].test;
  EXPECT_NE(find_figure(report, "matmul_fp32"), nullptr);
  EXPECT_NE(find_figure(report, "disk_write"), nullptr);
}

// FLOTILLA_STANDIN_ECC=3 FLOTILLA_STANDIN_HOT=1.
TEST_F(Gpus, SayWhatNvmlCountsUnderLoad) {
  const auto soak = soaked([](const auto& s) { return s.gpu_uncorrected.value_or(0) > 0 && s.gpu_throttled.value_or(0) > 0; });
  EXPECT_GT(soak.gpu_uncorrected.value_or(0), 0);
  EXPECT_EQ(soak.gpu_corrected, 0);
  EXPECT_GT(soak.gpu_throttled.value_or(0), 0);
}

}  // namespace
}  // namespace flotilla::health
