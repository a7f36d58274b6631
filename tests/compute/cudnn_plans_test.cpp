// NVIDIA's own cuDNN compiles the attention of every model of the catalogue for devices that are not here ("deviceless compilation"), and
// asks for as much workspace as a forecast counts. FLOTILLA_CUDNN_PLANS=all: every model on every device; else one of each form.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <tuple>

#include "cuda/cudnn_attention.hpp"
#include "cuda/kernels/values.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/model/config.hpp"

namespace flotilla::compute::cuda::cudnn {
namespace {

/// From data sheets and NVIDIA's programming guide.
struct KnownDevice {
  const char* name;
  int capability, multiprocessors, shared, threads_of_multiprocessor, blocks_of_multiprocessor, clock_khz, memory_clock_khz;
  std::int64_t cache, memory;
};
constexpr KnownDevice a100{"NVIDIA A100-SXM4-80GB", 800, 108, 166912, 2048, 32, 1410000, 1593000, 41943040, 85094563840};
constexpr KnownDevice h100{"NVIDIA H100 80GB HBM3", 900, 132, 232448, 2048, 32, 1980000, 2619000, 52428800, 85017493504};
constexpr KnownDevice b200{"NVIDIA B200", 1000, 148, 232448, 2048, 32, 1965000, 3996000, 132644864, 191414927360};

/// As cuDNN writes a device's properties.
GraphTarget target(const KnownDevice& d) {
  return {nullptr,
          text(R"({"deviceName": ")", d.name, R"(", "deviceVer": )", d.capability, R"(, "multiProcessorCount": )", d.multiprocessors,
               R"(, "maxSharedMemoryPerBlockOptin": )", d.shared, R"(, "maxThreadsPerSM": )", d.threads_of_multiprocessor,
               R"(, "maxCtasPerSM": )", d.blocks_of_multiprocessor, R"(, "smClockRateKHz": )", d.clock_khz, R"(, "memClockRateKHz": )",
               d.memory_clock_khz, R"(, "l2CacheSize": )", d.cache, R"(, "totalGlobalMem": )", d.memory,
               R"(, "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,)",
               R"( "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "reservedSharedMemoryPerBlock": 1024,)",
               R"( "maxRegistersPerSM": 65536, "maxThreadsPerBlock": 1024, "pciDeviceId": 0, "isTccDriver": 0,)",
               R"( "supportCoopLaunch": 1, "cudaDeviceId": 0, "driverVer": 13000, "driverVersion": 13000})")};
}

/// As LibraryAttention puts it for a microbatch of one sequence.
AttentionProblem problem(const model::Config& model, int window, bool deterministic) {
  AttentionProblem p{.precision = Precision::bf16, .length = std::min(model.positions, 8192), .size = model.head_size(), .window = window};
  const std::int64_t groups = model.groups(), queries = model.queries_per_group();
  const std::int64_t row = (model.heads + 2 * groups) * p.size, width = model.heads * p.size;
  p.deterministic = deterministic;
  p.scale = 0.125f;
  p.batch = queries > 1 ? groups : 1;
  p.heads = queries > 1 ? queries : model.heads;
  p.groups = queries > 1 ? 1 : p.heads;
  p.query = p.key = p.value = queries > 1 ? HeadStrides{(queries + 2) * p.size, p.size, row} : HeadStrides{p.length * row, p.size, row};
  p.output = queries > 1 ? HeadStrides{queries * p.size, p.size, width} : HeadStrides{p.length * width, p.size, width};
  p.statistics_batch = p.heads * p.length;
  return p;
}

class CudnnPlans : public ::testing::TestWithParam<KnownDevice> {
 protected:
  void SetUp() override {
    if (const auto why = why_none(); !why.empty()) GTEST_SKIP() << why;
  }
};

std::vector<AttentionProblem> catalogue() {
  const char* all = std::getenv("FLOTILLA_CUDNN_PLANS");
  const bool each = all != nullptr && std::string{all} == "all";
  std::set<std::tuple<std::int64_t, bool, bool, std::int64_t, std::int64_t>> seen;
  std::vector<AttentionProblem> problems;
  for (const auto& name : model::built_in_names()) {
    const auto model = model::built_in(name);
    if (model::forecast_only(model)) continue;
    if (model.alibi || model.score_cap > 0 || model.head_size() > middle_head) continue;  // ours alone; not every device has plans
    std::set<int> windows{model.windows.begin(), model.windows.end()};
    if (windows.empty()) windows.insert(0);
    for (const int window : windows) {
      const auto p = problem(model, window, true);
      const bool shares = p.heads != p.groups;
      if (seen.emplace(p.size, window > 0, shares, each ? p.length : 0, each ? p.batch * p.heads : 0).second) problems.push_back(p);
    }
  }
  return problems;
}

/// The engines of sm_80 and sm_90 keep the gradients of scores in memory to add in order, and that is what is counted; sm_100's does not.
TEST_P(CudnnPlans, AreThereForEveryModelAndAskForWhatIsCounted) {
  const auto& device = GetParam();
  const bool blackwell = device.capability == 1000;
  for (auto p : catalogue()) {
    const AttentionPlans plans{p, target(device), blackwell};
    const Bytes asked = std::max(plans.forward_workspace(), plans.backward_workspace()), counted = attention_workspace(p);
    EXPECT_LE(asked, counted) << p.heads << " x " << p.size << " x " << p.length;
    if (!blackwell && p.length % 128 == 0) {
      EXPECT_GE(asked.count, counted.count - (1 << 15)) << p.heads << " x " << p.size << " x " << p.length;
    }
  }
}

TEST_P(CudnnPlans, TakeLessWhereOrderIsLeftToChance) {
  const auto& device = GetParam();
  for (const char* name : {"gpt2", "llama-3-8b"}) {
    const auto p = problem(model::built_in(name), 0, false), ordered = problem(model::built_in(name), 0, true);
    const AttentionPlans plans{p, target(device), device.capability == 1000};
    EXPECT_LE(plans.backward_workspace(), attention_workspace(p)) << name;
    EXPECT_LT(attention_workspace(p), attention_workspace(ordered)) << name;
  }
}

/// What the planner is told: 4.1 GiB for 32 heads of 8192 tokens in order.
TEST(CudnnWorkspace, OfLlama3InOrder) {
  const auto p = problem(model::built_in("llama-3-8b"), 0, true);
  EXPECT_NEAR(static_cast<double>(attention_workspace(p).count), 4224.0 * (1 << 20), 1 << 15);
}

INSTANTIATE_TEST_SUITE_P(Devices, CudnnPlans, ::testing::Values(a100, h100, b200),
                         [](const auto& device) { return text("sm_", device.param.capability / 10); });

}  // namespace
}  // namespace flotilla::compute::cuda::cudnn
