#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "cpu/backend.hpp"
#include "cuda/backend.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/philox.hpp"
#include "flotilla/compute/kernel_image.hpp"
#include "support/waiting.hpp"

namespace flotilla::compute::test {
namespace {

constexpr Seconds limit = flotilla::tests::hang_bound();

Setup setup(Precision precision) {
  Setup s;
  s.model = model::built_in("gpt2-tiny");
  s.length = 16;
  s.precision = precision;
  return s;
}

std::vector<float> numbers(std::size_t n, std::uint64_t seed) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = uniform(Philox{seed, 1}(i)[0]) * 2 - 1;
  return values;
}

/// Started without FLOTILLA_GPU_KERNELS, this program has the kernels that nvcc made, or none.
class CudaBackend : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string why = why_no_kernels(gpu::DeviceContext::open(0).facts(), gpu::presence().driver_version);
    if (!why.empty()) GTEST_SKIP() << why;
  }
};

/// A backend and arrays in its memory.
struct Machine {
  explicit Machine(Precision precision)
      : device{gpu::DeviceContext::open(0)}, backend{make_cuda_backend(setup(precision), device, kernel_image(device.facts()))} {}

  template <class T>
  T* upload(const std::vector<T>& values) {
    arenas.push_back(device.make_buffer(Bytes{static_cast<std::int64_t>(values.size() * sizeof(T))}));
    backend->stream()->copy_to_device(arenas.back().data(), std::as_bytes(std::span{values}));
    backend->stream()->wait(limit);
    return reinterpret_cast<T*>(arenas.back().data().address);
  }
  template <class T>
  std::vector<T> download(const T* from, std::size_t n) {
    std::vector<T> values(n);
    backend->stream()->copy_to_host(std::as_writable_bytes(std::span{values}),
                                    {const_cast<std::byte*>(reinterpret_cast<const std::byte*>(from))});
    backend->stream()->wait(limit);
    return values;
  }

  gpu::DeviceContext device;
  std::unique_ptr<Backend> backend;
  std::vector<gpu::DeviceBuffer> arenas;
};

/// fp32 on both, with the same operations in another order of a fused multiply-add or two.
void expect_close(const std::vector<float>& a, const std::vector<float>& b, float scale) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 8 * 0x1p-24f * (std::abs(b[i]) + scale)) << i;
}

TEST_F(CudaBackend, AdamWIsThatOfTheCpu) {
  constexpr std::size_t n = 80;
  program::Part part;
  part.slots = {{0, 0, 33}, {1, 48, 30}};
  part.elements = n;
  const AdamW a{.learning_rate = 0.01f, .gradient_factor = 0.5f, .step = 3};
  const std::vector<std::uint8_t> decays{1, 0};
  std::vector<float> parameters = numbers(n, 1), gradients = numbers(n, 2), first = numbers(n, 3), second = numbers(n, 4);
  for (float& v : second) v = std::abs(v);
  Machine m{Precision::bf16};
  float *p = m.upload(parameters), *m1 = m.upload(first), *m2 = m.upload(second);
  const float* g = m.upload(gradients);
  std::vector<std::uint16_t> copies(n, 7);
  auto* const w = m.upload(copies);
  m.backend->adamw(a, part, decays, p, reinterpret_cast<std::byte*>(w), g, m1, m2);
  make_cpu_backend(setup(Precision::bf16))
      ->adamw(a, part, decays, parameters.data(), reinterpret_cast<std::byte*>(copies.data()), gradients.data(), first.data(),
              second.data());
  const auto there = m.download(p, n);
  expect_close(there, parameters, 0.01f);
  expect_close(m.download(m1, n), first, 1);
  expect_close(m.download(m2, n), second, 1);
  const auto rounded = m.download(w, n);
  EXPECT_EQ(rounded[40], 7);  // between the slots
  for (std::size_t i : {0u, 32u, 48u, 77u}) {
    const float copy = std::bit_cast<float>(static_cast<std::uint32_t>(rounded[i]) << 16);
    EXPECT_NEAR(copy, there[i], 0x1p-8f * std::abs(there[i]));
  }
}

TEST_F(CudaBackend, SquaredNormIsThatOfTheCpuAndAlwaysTheSame) {
  const std::vector<float> values = numbers(20000, 5);
  Machine m{Precision::fp32};
  const float* there = m.upload(values);
  double here = 0;
  make_cpu_backend(setup(Precision::fp32))->add_squared_norm(values, &here);
  double* const sum = m.upload(std::vector<double>{0, 0});
  for (double* each : {sum, sum + 1}) m.backend->add_squared_norm({there, values.size()}, each);
  const auto two = m.download(sum, 2);
  EXPECT_NEAR(two[0], here, 1e-12 * here);
  EXPECT_EQ(two[1], two[0]);
  m.backend->add_squared_norm({}, sum);
  m.backend->add_squared_norm({there, values.size()}, sum);
  EXPECT_EQ(m.download(sum, 1)[0], 2 * two[0]);
}

TEST_F(CudaBackend, ConvertsAndClears) {
  const std::vector<float> values = numbers(1001, 6);
  Machine m{Precision::bf16};
  auto* const to = m.upload(std::vector<std::uint16_t>(values.size()));
  m.backend->convert({m.upload(values), values.size()}, reinterpret_cast<std::byte*>(to));
  std::vector<std::uint16_t> here(values.size());
  make_cpu_backend(setup(Precision::bf16))->convert(values, reinterpret_cast<std::byte*>(here.data()));
  EXPECT_EQ(m.download(to, values.size()), here);
  m.backend->fill({reinterpret_cast<std::byte*>(to), 10 * sizeof(std::uint16_t)}, 0);
  const auto cleared = m.download(to, values.size());
  EXPECT_EQ(cleared[9], 0);
  EXPECT_EQ(cleared[10], here[10]);
}

TEST_F(CudaBackend, CopiesRowsOfAnyPitch) {
  Machine m{Precision::fp32};
  const std::vector<float> values = numbers(24, 7);
  auto* const from = reinterpret_cast<std::byte*>(m.upload(values));
  float* const to = m.upload(std::vector<float>(24));
  m.backend->copy(reinterpret_cast<std::byte*>(to + 1), from + 8, {.rows = 3, .width = 12, .from_pitch = 24, .to_pitch = 20});
  m.backend->copy(reinterpret_cast<std::byte*>(to + 20), from, {.rows = 2, .width = 8, .from_pitch = 8, .to_pitch = 8});
  std::vector<float> expected(24);
  for (std::size_t row = 0; row < 3; ++row) std::copy_n(&values[2 + 6 * row], 3, &expected[1 + 5 * row]);
  std::copy_n(values.data(), 4, &expected[20]);
  EXPECT_EQ(m.download(to, 24), expected);
}

TEST_F(CudaBackend, SaysWhatRunsUnderneath) {
  EXPECT_EQ((Machine{Precision::fp32}.backend->description()), "cuBLASLt 13.1.0 on NVIDIA H100 80GB HBM3 (sm_90)");
}

TEST_F(CudaBackend, RefusesWhatItCannotDo) {
  const auto device = gpu::DeviceContext::open(0);
  EXPECT_THROW(make_cuda_backend(setup(Precision::fp32), device, {}), Error);  // a build without kernels
  compute::Setup large = setup(Precision::fp32);
  large.model.heads = 1;
  large.model.hidden = 512;
  EXPECT_THROW(make_cuda_backend(large, device, kernel_image(device.facts())), Error);  // heads of 512
}

}  // namespace
}  // namespace flotilla::compute::test
