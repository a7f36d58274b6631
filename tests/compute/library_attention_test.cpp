// Attention by cuDNN on a stand-in device and library: proved, or left with one line that says why.
#include <gtest/gtest.h>

#include <cstdlib>

#include "cuda/backend.hpp"
#include "flotilla/compute/kernel_image.hpp"
#include "flotilla/model/config.hpp"

namespace flotilla::compute::test {
namespace {

constexpr const char* fault_variable = "FLOTILLA_STANDIN_CUDNN";

Setup setup(const std::string& model, Precision precision, AttentionKernel attention = AttentionKernel::cudnn) {
  Setup s;
  s.model = model::built_in(model);
  s.model.dropout = s.model.attention_dropout = 0;
  s.length = 16;
  s.precision = precision;
  s.device = {cluster::DeviceKind::gpu, 0, false, attention};
  return s;
}

/// What a backend says that it runs, and the lines of its log.
struct Prepared {
  std::string description, log;
  bool by_cudnn() const { return description.find(", cuDNN 9.19.0 on ") != std::string::npos; }
};

Prepared prepared(const Setup& s, int sequences, const char* fault = nullptr) {
  if (fault) setenv(fault_variable, fault, 1);
  const auto device = gpu::DeviceContext::open(0);
  ::testing::internal::CaptureStderr();
  const auto backend = make_cuda_backend(s, device, kernel_image(device.facts()));
  const auto scratch = device.make_buffer(cuda_scratch(s, sequences));
  backend->set_scratch({scratch.data().address, static_cast<std::size_t>(scratch.size().count)});
  backend->prepare(sequences);
  Prepared result{backend->description(), {}};
  result.log = ::testing::internal::GetCapturedStderr();
  unsetenv(fault_variable);
  return result;
}

TEST(LibraryAttention, IsProvedForEveryLayout) {
  for (const char* model : {"gpt2-tiny", "opt-tiny", "gpt-neo-tiny", "llama-tiny"})
    for (const auto precision : {Precision::bf16, Precision::fp16})
      for (const int sequences : {1, 3})
        for (const bool deterministic : {true, false}) {
          auto s = setup(model, precision);
          s.device.deterministic = deterministic;
          const auto result = prepared(s, sequences);
          EXPECT_TRUE(result.by_cudnn()) << model << ": " << result.log;
          EXPECT_EQ(result.log, "");
        }
}

TEST(LibraryAttention, IsProvedForAShareOfTheHeads) {
  for (const char* model : {"gpt2-tiny", "llama-tiny"}) {
    auto s = setup(model, Precision::bf16);
    s.tensor_parallel = model == std::string{"gpt2-tiny"} ? 2 : 3;
    s.tensor_index = 1;
    const auto result = prepared(s, 2);
    EXPECT_TRUE(result.by_cudnn()) << result.log;
  }
}

TEST(LibraryAttention, IsNotAskedWhereItCannotBe) {
  auto dropped = setup("gpt2-tiny", Precision::bf16), cached = dropped;
  dropped.model.attention_dropout = 0.1;
  cached.cache = 32;
  for (const auto& s :
       {setup("gpt2-tiny", Precision::fp32), dropped, cached, setup("gpt2-tiny", Precision::bf16, AttentionKernel::flotilla)}) {
    const auto result = prepared(s, 1);
    EXPECT_FALSE(result.by_cudnn());
    EXPECT_EQ(result.log, "");
  }
}

struct Fault {
  const char *model, *name, *line;
};

/// A library that computes something else never trains, and the line says what was seen.
TEST(LibraryAttention, FaultsAreFound) {
  const std::string ours = "attention by our own kernels on GPU 0 (NVIDIA H100 80GB HBM3): ";
  for (const auto& [model, name, line] :
       {Fault{"gpt2-tiny", "refuses", "the stand-in refuses this device"},
        Fault{"gpt2-tiny", "engines", "no plan for this attention: it proposes no engine"},
        Fault{"gpt2-tiny", "workspace", "it wants 1.00 TiB of workspace"}, Fault{"gpt2-tiny", "fails", "the stand-in's kernel failed"},
        Fault{"gpt2-tiny", "mask", "the output is "}, Fault{"llama-tiny", "mask", "the output is "},
        Fault{"gpt-neo-tiny", "window", "the output is "}, Fault{"gpt2-tiny", "statistics", "log_sum_exp is "},
        Fault{"gpt2-tiny", "back-mask", "the gradient of a "}, Fault{"llama-tiny", "back-mask", "the gradient of a "},
        Fault{"gpt-neo-tiny", "back-window", "the gradient of a "}, Fault{"gpt2-tiny", "scale", "the gradient of a "},
        Fault{"llama-tiny", "key", "the gradient of a "}, Fault{"gpt2-tiny", "noise", "its results differ from run to run"}}) {
    const auto result = prepared(setup(model, Precision::bf16), 2, name);
    EXPECT_FALSE(result.by_cudnn()) << name;
    EXPECT_NE(result.log.find(ours), std::string::npos) << name << ": " << result.log;
    EXPECT_NE(result.log.find(line), std::string::npos) << name << ": " << result.log;
    EXPECT_EQ(std::count(result.log.begin(), result.log.end(), '\n'), 1) << name;
  }
}

/// Started with that fault, as a library is opened once.
TEST(OldCudnn, IsNamed) {
  setenv(fault_variable, "version", 1);
  const auto result = prepared(setup("gpt2-tiny", Precision::bf16), 1);
  EXPECT_FALSE(result.by_cudnn());
  EXPECT_NE(result.log.find("cuDNN 9.5.0 is here, and 9.6 or later is needed"), std::string::npos) << result.log;
}

/// What need not be deterministic may have other bits each time.
TEST(LibraryAttention, NoiseIsLeftWhereOrderIsLeftToChance) {
  auto s = setup("gpt2-tiny", Precision::bf16);
  s.device.deterministic = false;
  EXPECT_TRUE(prepared(s, 1, "noise").by_cudnn());
}

TEST(LibraryAttention, IsLeftWhereItIsSlowerAndNobodyAskedForIt) {
  auto s = setup("gpt2-tiny", Precision::bf16, AttentionKernel::automatic);
  s.device.deterministic = false;
  const auto automatic = prepared(s, 1, "slow");
  EXPECT_FALSE(automatic.by_cudnn());
  EXPECT_NE(automatic.log.find(" where ours takes "), std::string::npos) << automatic.log;
  EXPECT_TRUE(prepared(setup("gpt2-tiny", Precision::bf16), 1, "slow").by_cudnn());
}

/// Another start may measure other times: they must not choose other bits.
TEST(LibraryAttention, TimesDoNotDecideOverDeterministicBits) {
  const auto automatic = prepared(setup("gpt2-tiny", Precision::bf16, AttentionKernel::automatic), 1, "slow");
  EXPECT_TRUE(automatic.by_cudnn());
  EXPECT_NE(automatic.log.find(" where ours takes "), std::string::npos) << automatic.log;
  EXPECT_NE(automatic.log.find("--device.attention flotilla takes ours"), std::string::npos) << automatic.log;
  EXPECT_EQ(std::count(automatic.log.begin(), automatic.log.end(), '\n'), 1) << automatic.log;
}

/// Of an option that asks for cuDNN, and of one that leaves the choice: the second takes no memory for it.
TEST(LibraryAttention, RoomIsCountedWhereItIsAskedFor) {
  auto s = setup("gpt2", Precision::bf16, AttentionKernel::flotilla);
  s.length = 1024;
  const Bytes without = cuda_scratch(s, 8);
  s.device.attention = AttentionKernel::automatic;
  EXPECT_EQ(cuda_scratch(s, 8), without);
  s.device.attention = AttentionKernel::cudnn;
  const Bytes ordered = cuda_scratch(s, 8);
  s.device.deterministic = false;
  const Bytes by_chance = cuda_scratch(s, 8);
  // 8 x 12 heads of 1024 x 1024 scores in two bytes, less the 32 MiB that are there; else sums of 1024 x 64 in four bytes, twice.
  EXPECT_NEAR(static_cast<double>((ordered - without).count), (192.0 - 32) * (1 << 20), 1 << 15);
  EXPECT_NEAR(static_cast<double>((by_chance - without).count), (48.0 - 32) * (1 << 20), 1 << 15);
}

}  // namespace
}  // namespace flotilla::compute::test
