#include "device_mirror.hpp"

#include <cstdlib>
#include <string>

#include "cpu/backend.hpp"
#include "cuda/backend.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/compute/kernel_image.hpp"
#include "support/standin_count.hpp"
#include "support/waiting.hpp"

namespace flotilla::compute::test {
namespace {

constexpr Seconds limit = flotilla::tests::hang_bound();

std::map<model::Operation, std::int64_t> counts;

/// FLOTILLA_TEST_ATTENTION=cudnn: by cuDNN, where it may be.
Setup on_device(Setup setup) {
  setup.device.kind = cluster::DeviceKind::gpu;
  const char* attention = std::getenv("FLOTILLA_TEST_ATTENTION");
  if (attention && std::string{attention} == "cudnn") setup.device.attention = AttentionKernel::cudnn;
  return setup;
}

class Mirror final : public Backend {
 public:
  Mirror(const Setup& setup, int sequences)
      : device_{gpu::DeviceContext::open(0)},
        backend_{make_cuda_backend(on_device(setup), device_, kernel_image(device_.facts()))},
        host_{make_cpu_backend(setup)},
        scratch_{device_.make_buffer(cuda_scratch(on_device(setup), sequences))} {
    backend_->set_scratch({scratch_.data().address, static_cast<std::size_t>(scratch_.size().count)});
    backend_->prepare(sequences);
  }

  void run(const Task& task) override {
    const auto used = pool().used();
    if (memory_.size().count < static_cast<std::int64_t>(used.size()))
      memory_ = device_.make_buffer(Bytes{static_cast<std::int64_t>(used.size())});
    Task there = task;
    for (std::byte*& operand : there.operands)
      if (operand) operand = memory_.data().address + (operand - used.data());
    backend_->stream()->copy_to_device(memory_.data(), used);
    const std::int64_t before = tests::standin_count();
    backend_->run(there);
    counts[task.operation] = tests::standin_count() - before;
    backend_->stream()->copy_to_host(used, memory_.data());
    backend_->stream()->wait(limit);
  }
  void score_targets(const Task& task, std::span<TokenScore> scores) override { host_->score_targets(task, scores); }
  void read_logits(const Task& task, std::int64_t row, std::span<float> to) override { host_->read_logits(task, row, to); }
  // The harness fills its memory by these; the kernels behind them have checks of their own.
  void fill(std::span<std::byte> bytes, unsigned char value) override { host_->fill(bytes, value); }
  void copy(std::byte* to, const std::byte* from, const RowCopy& rows) override { host_->copy(to, from, rows); }
  void adamw(const AdamW& a, const program::Part& part, std::span<const std::uint8_t> decays, float* parameters, std::byte* weights,
             const float* gradients, float* moment1, float* moment2) override {
    host_->adamw(a, part, decays, parameters, weights, gradients, moment1, moment2);
  }
  void add_squared_norm(std::span<const float> values, double* sum) override { host_->add_squared_norm(values, sum); }
  void convert(std::span<const float> from, std::byte* to) override { host_->convert(from, to); }
  void set_scratch(std::span<std::byte>) override {}
  std::string description() const override { return backend_->description(); }

 private:
  gpu::DeviceContext device_;
  std::unique_ptr<Backend> backend_, host_;
  gpu::DeviceBuffer scratch_, memory_;
};

}  // namespace

std::span<std::byte> Pool::take(std::size_t bytes) {
  const std::size_t taken = (bytes + 63) / 64 * 64;
  FLOTILLA_ASSERT(used_ + taken <= most, "the pool of tests is too small");
  ++in_use_;
  used_ += taken;
  return {start_ + used_ - taken, bytes};
}

void Pool::give_back() {
  if (--in_use_ == 0) used_ = 0;
}

Pool& pool() {
  static Pool all;
  return all;
}

const std::map<model::Operation, std::int64_t>& enqueued() { return counts; }

std::unique_ptr<Backend> make_test_backend(const Setup& setup, int sequences) {
  const char* device = std::getenv("FLOTILLA_TEST_DEVICE");
  if (device && std::string{device} == "gpu") return std::make_unique<Mirror>(setup, sequences);
  return make_backend(setup);
}

}  // namespace flotilla::compute::test
