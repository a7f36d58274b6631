#include "backend.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "cpu/kernels.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/half.hpp"
#include "operations.hpp"

namespace flotilla::compute {
namespace cuda {
namespace {

/// Of copies between host and device that wait for nothing else.
constexpr Seconds copy_limit{60};

float to_float(float v) { return v; }
float to_float(bfloat16 v) { return std::bit_cast<float>(static_cast<std::uint32_t>(v.bits) << 16); }
float to_float(float16 v) { return half_to_float(v.bits); }

template <class E>
class CudaBackend final : public Backend {
 public:
  CudaBackend(const Setup& setup, const gpu::DeviceContext& device, std::span<const std::byte> image)
      : setup_{setup}, device_{device}, operations_{setup, device, image}, norm_{device.make_buffer(Bytes{norm_bytes})} {
    queue().fill(norm_.data(), Bytes{norm_bytes}, 0);
  }

  void run(const Task& task) override { operations_.run(task); }
  void score_targets(const Task&, std::span<TokenScore>) override;
  void read_logits(const Task&, std::int64_t row, std::span<float> to) override;
  void fill(std::span<std::byte> bytes, unsigned char value) override {
    if (!bytes.empty()) queue().fill({bytes.data()}, Bytes{static_cast<std::int64_t>(bytes.size())}, value);
  }
  void copy(std::byte* to, const std::byte* from, const RowCopy&) override;
  void adamw(const AdamW&, const program::Part&, std::span<const std::uint8_t> decays, float* parameters, std::byte* weights,
             const float* gradients, float* moment1, float* moment2) override;
  void add_squared_norm(std::span<const float>, double* sum) override;
  void convert(std::span<const float> from, std::byte* to) override;
  void set_scratch(std::span<std::byte> scratch) override { operations_.set_scratch(scratch); }
  void prepare(int sequences) override { operations_.prepare(sequences); }
  std::string description() const override;
  gpu::Stream* stream() override { return &operations_.stream(); }

 private:
  /// The blocks' sums and the counter of squared_norm.
  static constexpr std::int64_t norm_bytes = 8 * (most_norm_blocks + 1);

  gpu::Stream& queue() { return operations_.stream(); }

  static gpu::LaunchShape elements(std::int64_t n, std::int64_t of_thread) {
    const std::int64_t of_block = element_threads * of_thread;
    return {.blocks_x = (n + of_block - 1) / of_block, .threads = element_threads};
  }

  template <class T>
  std::vector<T> fetched(const std::byte* from, std::size_t count) {
    std::vector<T> values(count);
    queue().copy_to_host(std::as_writable_bytes(std::span{values}), {const_cast<std::byte*>(from)});
    queue().wait(copy_limit);
    return values;
  }

  const Setup setup_;
  gpu::DeviceContext device_;
  CudaOperations<E> operations_;
  gpu::DeviceBuffer norm_;
};

template <class E>
void CudaBackend<E>::adamw(const AdamW& a, const program::Part& part, std::span<const std::uint8_t> decays, float* parameters,
                           std::byte* weights, const float* gradients, float* moment1, float* moment2) {
  const double step = static_cast<double>(a.step), first = 1 - std::pow(static_cast<double>(a.beta1), step);
  const double second = 1 - std::pow(static_cast<double>(a.beta2), step);
  for (std::size_t i = 0; i < part.slots.size(); ++i) {
    if (!part.slots[i].trained) continue;
    const std::int64_t at = part.slots[i].offset, n = part.slots[i].elements;
    const AdamWStep s{static_cast<float>(a.learning_rate / first),
                      a.beta1,
                      a.beta2,
                      a.epsilon,
                      decays[i] ? a.learning_rate * a.weight_decay : 0.0f,
                      a.gradient_factor,
                      static_cast<float>(1 / std::sqrt(second))};
    operations_.kernels().adamw(queue(), elements(n, 4), parameters + at, reinterpret_cast<E*>(weights) + at, gradients + at, moment1 + at,
                                moment2 + at, n, s);
  }
}

template <class E>
void CudaBackend<E>::copy(std::byte* to, const std::byte* from, const RowCopy& c) {
  queue().copy_rows_on_device({to}, Bytes{c.to_pitch}, {const_cast<std::byte*>(from)}, Bytes{c.from_pitch}, Bytes{c.width}, c.rows);
}

template <class E>
void CudaBackend<E>::add_squared_norm(std::span<const float> values, double* sum) {
  if (values.empty()) return;
  const auto n = static_cast<std::int64_t>(values.size());
  auto* const partials = reinterpret_cast<double*>(norm_.data().address);
  auto* const counter = reinterpret_cast<unsigned*>(partials + most_norm_blocks);
  const std::int64_t blocks = std::min<std::int64_t>(most_norm_blocks, (n + norm_values_per_block - 1) / norm_values_per_block);
  operations_.kernels().squared_norm(queue(), {.blocks_x = blocks, .threads = norm_threads}, sum, partials, counter, values.data(), n);
}

template <class E>
void CudaBackend<E>::convert(std::span<const float> from, std::byte* to) {
  const auto n = static_cast<std::int64_t>(from.size());
  operations_.kernels().convert(queue(), elements(n, 16 / sizeof(E)), reinterpret_cast<E*>(to), from.data(), n);
}

/// By the expression of the host's kernel: a few numbers a token, from statistics that the device has computed.
template <class E>
void CudaBackend<E>::score_targets(const Task& task, std::span<TokenScore> scores) {
  const auto tokens = static_cast<std::int64_t>(scores.size());
  const auto members = static_cast<std::size_t>(setup_.tensor_parallel);
  const auto stats = fetched<float>(task.operand<std::byte>(program::Role::gathered_stats), 3 * members * scores.size());
  cpu::HeadRows rows{};
  rows.gathered = stats.data();
  rows.members = setup_.tensor_parallel;
  rows.row_count = tokens;
  cpu::kernels<float>().head_scores(rows, scores.data(), {0, tokens});
}

template <class E>
void CudaBackend<E>::read_logits(const Task& task, std::int64_t row, std::span<float> to) {
  const model::LayerShape shape{task.sequences, setup_.length, setup_.tensor_parallel, setup_.tensor_index, setup_.precision};
  const float* first = task.operand<float>(program::Role::logits) + row * model::logits_pitch(setup_.model, shape);
  const auto logits = fetched<E>(reinterpret_cast<const std::byte*>(first), to.size());
  std::ranges::transform(logits, to.begin(), [](E v) { return to_float(v); });
}

template <class E>
std::string CudaBackend<E>::description() const {
  const gpu::DeviceFacts& facts = device_.facts();
  const std::string& attention = operations_.attention_library();
  return text(operations_.products().version(), attention.empty() ? "" : ", ", attention, " on ", facts.name, " (sm_", facts.major,
              facts.minor, ')');
}

}  // namespace
}  // namespace cuda

std::unique_ptr<Backend> make_cuda_backend(const Setup& setup, const gpu::DeviceContext& device, std::span<const std::byte> kernels) {
  switch (setup.precision) {
    case Precision::fp32: return std::make_unique<cuda::CudaBackend<float>>(setup, device, kernels);
    case Precision::bf16: return std::make_unique<cuda::CudaBackend<cuda::bfloat16>>(setup, device, kernels);
    case Precision::fp16: break;
  }
  return std::make_unique<cuda::CudaBackend<cuda::float16>>(setup, device, kernels);
}

Bytes cuda_scratch(const Setup& setup, int sequences) { return cuda::scratch_bytes(setup, sequences); }

}  // namespace flotilla::compute
