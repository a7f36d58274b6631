#include "backend.hpp"

#include <algorithm>
#include <cmath>

#include "operations.hpp"

namespace flotilla::compute {
namespace cuda {
namespace {

/// Longer than any operation of a healthy device takes.
constexpr Seconds limit{60};

template <class E>
class CudaBackend final : public DeviceBackend {
 public:
  CudaBackend(const Setup& setup, const gpu::Device& device, std::span<const std::byte> image)
      : device_{device}, operations_{setup, device, image}, norm_{device.make_arena(Bytes{norm_bytes})} {
    stream().fill(norm_.data(), Bytes{norm_bytes}, 0);
  }

  void run(const Task& task) override { operations_.run(task); }
  void zero(std::span<std::byte> bytes) override { stream().fill({bytes.data()}, Bytes{static_cast<std::int64_t>(bytes.size())}, 0); }
  void adamw(const AdamW&, const program::Part&, std::span<const std::uint8_t> decays, float* parameters, std::byte* weights,
             const float* gradients, float* moment1, float* moment2) override;
  double squared_norm(std::span<const float>) override;
  void convert(std::span<const float> from, std::byte* to) override;
  void set_scratch(std::span<std::byte> scratch) override { operations_.set_scratch(scratch); }
  std::string description() const override;
  void wait(Seconds most) override { stream().wait(most); }
  gpu::Stream& stream() override { return operations_.stream(); }

 private:
  /// The sum, the blocks' sums and the counter of squared_norm.
  static constexpr std::int64_t norm_bytes = 8 * (most_norm_blocks + 2);

  static gpu::LaunchShape elements(std::int64_t n, std::int64_t of_thread) {
    const std::int64_t of_block = element_threads * of_thread;
    return {.blocks_x = (n + of_block - 1) / of_block, .threads = element_threads};
  }

  gpu::Device device_;
  Operations<E> operations_;
  gpu::Arena norm_;
};

template <class E>
void CudaBackend<E>::adamw(const AdamW& a, const program::Part& part, std::span<const std::uint8_t> decays, float* parameters,
                           std::byte* weights, const float* gradients, float* moment1, float* moment2) {
  const double step = static_cast<double>(a.step), first = 1 - std::pow(static_cast<double>(a.beta1), step);
  const double second = 1 - std::pow(static_cast<double>(a.beta2), step);
  for (std::size_t i = 0; i < part.slots.size(); ++i) {
    const std::int64_t at = part.slots[i].offset, n = part.slots[i].elements;
    const AdamWStep s{static_cast<float>(a.learning_rate / first),
                      a.beta1,
                      a.beta2,
                      a.epsilon,
                      decays[i] ? a.learning_rate * a.weight_decay : 0.0f,
                      a.gradient_factor,
                      static_cast<float>(1 / std::sqrt(second))};
    operations_.kernels().adamw(stream(), elements(n, 4), parameters + at, reinterpret_cast<E*>(weights) + at, gradients + at, moment1 + at,
                                moment2 + at, n, s);
  }
}

template <class E>
double CudaBackend<E>::squared_norm(std::span<const float> values) {
  if (values.empty()) return 0;
  const auto n = static_cast<std::int64_t>(values.size());
  auto* const sum = reinterpret_cast<double*>(norm_.data().address);
  auto* const counter = reinterpret_cast<unsigned*>(sum + 1 + most_norm_blocks);
  const std::int64_t blocks = std::min<std::int64_t>(most_norm_blocks, (n + norm_values_per_block - 1) / norm_values_per_block);
  operations_.kernels().squared_norm(stream(), {.blocks_x = blocks, .threads = norm_threads}, sum, sum + 1, counter, values.data(), n);
  double result = 0;
  stream().copy_to_host(std::as_writable_bytes(std::span{&result, 1}), norm_.data());
  stream().wait(limit);
  return result;
}

template <class E>
void CudaBackend<E>::convert(std::span<const float> from, std::byte* to) {
  const auto n = static_cast<std::int64_t>(from.size());
  operations_.kernels().convert(stream(), elements(n, 16 / sizeof(E)), reinterpret_cast<E*>(to), from.data(), n);
}

template <class E>
std::string CudaBackend<E>::description() const {
  const gpu::DeviceFacts& facts = device_.facts();
  return text(operations_.products().version(), " on ", facts.name, " (sm_", facts.major, facts.minor, ')');
}

}  // namespace
}  // namespace cuda

std::unique_ptr<DeviceBackend> make_cuda_backend(const Setup& setup, const gpu::Device& device, std::span<const std::byte> kernels) {
  if (setup.precision == Precision::fp32) return std::make_unique<cuda::CudaBackend<float>>(setup, device, kernels);
  return std::make_unique<cuda::CudaBackend<cuda::bfloat16>>(setup, device, kernels);
}

Bytes cuda_scratch(const Setup& setup, int sequences) { return cuda::scratch_bytes(setup, sequences); }

}  // namespace flotilla::compute
