#include "cpu/backend.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "operations.hpp"

namespace flotilla::compute {
namespace cpu {
namespace {

/// Pieces of a sum of squares: their number and borders depend on the length alone.
constexpr std::int64_t norm_parts = 256;

template <class E>
class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const Setup& setup) : setup_{setup}, kernels_{kernels<E>()}, operations_{setup} {}

  void run(const Task& task) override { operations_.run(task); }
  void score_targets(const Task& task, std::span<TokenScore> scores) override { operations_.score_targets(task, scores); }
  void read_logits(const Task&, std::int64_t row, std::span<float> to) override;
  void fill(std::span<std::byte>, unsigned char value) override;
  void copy(std::byte* to, const std::byte* from, const RowCopy&) override;
  void adamw(const AdamW&, const program::Part&, std::span<const std::uint8_t> decays, float* parameters, std::byte* weights,
             const float* gradients, float* moment1, float* moment2) override;
  void add_squared_norm(std::span<const float>, double* sum) override;
  void convert(std::span<const float> from, std::byte* to) override;
  void set_scratch(std::span<std::byte> scratch) override { operations_.set_scratch(scratch); }
  std::string description() const override;

 private:
  Setup setup_;
  const Kernels<E>& kernels_;
  Operations<E> operations_;
};

template <class E>
void CpuBackend<E>::read_logits(const Task& task, std::int64_t row, std::span<float> to) {
  const model::LayerShape shape{task.sequences, setup_.length, setup_.tensor_parallel, setup_.tensor_index, setup_.precision};
  std::copy_n(task.operand<float>(program::Role::logits) + row * model::logits_pitch(setup_.model, shape), to.size(), to.begin());
}

template <class E>
void CpuBackend<E>::fill(std::span<std::byte> bytes, unsigned char value) {
  for_shares(setup_.threads, static_cast<std::int64_t>(bytes.size()),
             [&](int, Rows share) { std::memset(bytes.data() + share.first, value, static_cast<std::size_t>(share.count())); });
}

template <class E>
void CpuBackend<E>::copy(std::byte* to, const std::byte* from, const RowCopy& c) {
  for (std::int64_t row = 0; row < c.rows; ++row) std::copy_n(from + row * c.from_pitch, c.width, to + row * c.to_pitch);
}

template <class E>
void CpuBackend<E>::adamw(const AdamW& a, const program::Part& part, std::span<const std::uint8_t> decays, float* parameters,
                          std::byte* weights, const float* gradients, float* moment1, float* moment2) {
  const double step = static_cast<double>(a.step), first = 1 - std::pow(static_cast<double>(a.beta1), step);
  const double second = 1 - std::pow(static_cast<double>(a.beta2), step);
  E* copies = reinterpret_cast<E*>(weights);
  for (std::size_t i = 0; i < part.slots.size(); ++i) {
    if (!part.slots[i].trained) continue;
    const program::Part::Slot& slot = part.slots[i];
    const float decay = decays[i] ? a.learning_rate * a.weight_decay : 0.0f;
    for_shares(setup_.threads, slot.elements, [&](int, Rows share) {
      const std::int64_t at = slot.offset + share.first;
      kernels_.adamw({parameters + at, moment1 + at, moment2 + at, gradients + at, static_cast<float>(a.learning_rate / first), a.beta1,
                      a.beta2, a.epsilon, decay, a.gradient_factor, static_cast<float>(1 / std::sqrt(second))},
                     copies + at, share.count());
    });
  }
}

template <class E>
void CpuBackend<E>::add_squared_norm(std::span<const float> values, double* sum) {
  std::array<double, norm_parts> sums{};
  for_shares(setup_.threads, norm_parts, [&](int, Rows parts) {
    for (std::int64_t p = parts.first; p < parts.last; ++p) {
      const model::UnitRange range = model::share(static_cast<std::int64_t>(values.size()), norm_parts, static_cast<int>(p));
      sums[static_cast<std::size_t>(p)] = kernels_.squared_sum(values.data() + range.first, range.count());
    }
  });
  double all = 0;
  for (double part : sums) all += part;
  *sum += all;
}

template <class E>
void CpuBackend<E>::convert(std::span<const float> from, std::byte* to) {
  E* converted = reinterpret_cast<E*>(to);
  for_shares(setup_.threads, static_cast<std::int64_t>(from.size()),
             [&](int, Rows share) { kernels_.narrow(from.data() + share.first, converted + share.first, share.count()); });
}

template <class E>
std::string CpuBackend<E>::description() const {
  const std::int64_t d = setup_.model.hidden;
  const std::string product = implementation(linear_forward(setup_.precision, setup_.length, d, d), setup_.threads);
  return text(library_version(), ' ', product, ", ", kernel_set(), " kernels, ", setup_.threads,
              setup_.threads == 1 ? " thread" : " threads");
}

}  // namespace
}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend(const Setup& setup) {
  switch (setup.precision) {
    case Precision::fp32: return std::make_unique<cpu::CpuBackend<float>>(setup);
    case Precision::bf16: return std::make_unique<cpu::CpuBackend<cpu::bfloat16>>(setup);
    case Precision::fp16: break;
  }
  return std::make_unique<cpu::CpuBackend<cpu::float16>>(setup);
}

}  // namespace flotilla::compute
