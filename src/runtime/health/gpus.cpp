#include "gpus.hpp"

#include "flotilla/compute/gpu_rates.hpp"
#include "flotilla/compute/kernel_image.hpp"
#include "flotilla/gpu/device.hpp"

namespace flotilla::health {
namespace {

constexpr double for_gpu_step = 0.1;  // of a GPU's budget, in each precision; the rest is for rates
constexpr int first_with_bf16 = 8;    // major compute capability

class GpuTests {
 public:
  GpuTests(NodeTests& tests, bench::NodeReport& report, gpu::DeviceFacts facts)
      : tests_{tests}, report_{report}, facts_{std::move(facts)} {}

  /// The context first: a GPU that has fallen off the bus fails here, once.
  void run(Seconds budget) {
    if (!test("memory", [&] { add("gpu_memory", static_cast<double>(gpu::DeviceContext::open(facts_.ordinal).free_memory().count)); }))
      return;
    for (const auto precision : {Precision::fp32, Precision::bf16})
      if ((precision == Precision::fp32 || facts_.major >= first_with_bf16) && !run_known_step(precision, budget * for_gpu_step)) return;
    test("rates", [&] { measure(budget * (1 - 2 * for_gpu_step)); });
  }

 private:
  template <class Body>
  bool test(const std::string& what, Body body) {
    return tests_.run(text("GPU ", facts_.ordinal, " (", facts_.name, "), ", what), body);
  }
  void add(const char* kind, double value) {
    if (value > 0) tests_.add(text(kind, ':', bench::numbered_device(facts_.name, facts_.ordinal)), value);
  }
  bool run_known_step(Precision precision, Seconds budget) {
    return test("known-answer step, " + to_string(precision), [&] {
      probe::KnownStep step{precision, facts_, {}};
      const auto device = bench::numbered_device(text(facts_.name, ", ", compute::product_library()), facts_.ordinal);
      report_.answers.push_back(repeat(step, text(to_string(precision), ", ", device), budget).answer);
    });
  }
  void measure(Seconds budget) {
    const auto rates = compute::measure_rates(gpu::DeviceContext::open(facts_.ordinal), false, budget);
    add("gpu_memory_bandwidth", rates.memory.value);
    add("gpu_matmul_fp32", rates.fp32.value);
    add("gpu_matmul_bf16", rates.bf16.value);
    add("gpu_copy_in", rates.to_device.value);
    add("gpu_copy_out", rates.to_host.value);
  }

  NodeTests& tests_;
  bench::NodeReport& report_;
  const gpu::DeviceFacts facts_;
};

}  // namespace

void test_gpus(NodeTests& tests, bench::NodeReport& report, Seconds budget) {
  gpu::Presence found;
  if (!tests.run("GPUs", [&] { found = gpu::presence(); })) return;
  for (const auto& facts : found.devices)
    if (compute::why_no_kernels(facts, found.driver_version).empty())
      GpuTests{tests, report, facts}.run(budget / static_cast<double>(found.devices.size()));
}

}  // namespace flotilla::health
