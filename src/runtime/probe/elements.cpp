#include "elements.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/model/tensors.hpp"
#include "samples.hpp"
#include "workbench.hpp"

namespace flotilla::probe {
namespace {

constexpr int least_samples = 3, most_samples = 200;

/// How long to measure, and the clock to measure with.
struct Budget {
  Seconds time;
  Clock clock;
};

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

/// Round to nearest, ties to even; not for NaN.
std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

void add(std::vector<float>& sum, const std::vector<float>& contribution) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += contribution[i];
}

void add(std::vector<std::uint16_t>& sum, const std::vector<std::uint16_t>& contribution) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = to_bf16(from_bf16(sum[i]) + from_bf16(contribution[i]));
}

/// The first run, which touches the memory, is dropped. `timed_run`: a run and what it took.
ElementTime timed(const std::string& operation, std::int64_t elements, Budget budget, const std::function<Seconds()>& timed_run) {
  timed_run();
  std::vector<double> times;
  const Seconds end = now() + budget.time;
  while (static_cast<int>(times.size()) < least_samples || (now() < end && static_cast<int>(times.size()) < most_samples))
    times.push_back(timed_run().value);
  return {operation, Seconds{median(times)} * (1e6 / static_cast<double>(elements)), relative_scatter(times)};
}

/// A run of what the bench's device does.
template <class Work>
Seconds run_on(Workbench& bench, Clock clock, Work&& work) {
  bench.start(clock);
  work();
  bench.stop();
  return bench.times().back();
}

/// A vector on the bench's device.
class Vector {
 public:
  Vector(Workbench& bench, std::int64_t n, float value) : memory_{bench.take(Bytes{n * width})} {
    bench.put(memory_->data(), std::as_bytes(std::span{&value, 1}));
    bench.repeat(memory_->data(), width, n * width);
    bench.wait();
  }
  float* data() const { return reinterpret_cast<float*>(memory_->data()); }

 private:
  static constexpr std::int64_t width = sizeof(float);
  std::unique_ptr<DeviceMemory> memory_;
};

/// Elements whose vectors take a quarter of the memory at most.
std::int64_t vector_length(const compute::Setup& setup, Bytes memory) {
  constexpr std::int64_t on_host = 16 << 20, on_gpu = 256 << 20, bytes_of_all = 5 * sizeof(float);
  const std::int64_t most = setup.device.kind == cluster::DeviceKind::gpu ? on_gpu : on_host;
  return std::min(most, std::max<std::int64_t>(1, memory.count / 4 / bytes_of_all));
}

ElementTime time_adamw(Workbench& bench, Precision precision, const program::Part& part, Budget budget) {
  const std::int64_t n = part.elements;
  const Vector parameters{bench, n, 0.1f}, gradients{bench, n, 1e-3f}, moment1{bench, n, 1e-4f}, moment2{bench, n, 1e-6f};
  const auto copy = bench.take(precision == Precision::fp32 ? Bytes{} : n * element_size(precision));
  std::byte* weights = precision == Precision::fp32 ? reinterpret_cast<std::byte*>(parameters.data()) : copy->data();
  const std::vector<std::uint8_t> decays(part.slots.size(), 1);
  compute::AdamW step;
  step.learning_rate = 1e-6f;
  return timed("adamw", n, budget, [&] {
    const Seconds took = run_on(bench, budget.clock, [&] {
      bench.backend().adamw(step, part, decays, parameters.data(), weights, gradients.data(), moment1.data(), moment2.data());
    });
    ++step.step;
    return took;
  });
}

ElementTime time_squared_norm(Workbench& bench, std::int64_t n, Budget budget) {
  const Vector gradients{bench, n, 1e-3f};
  const auto sum = bench.take(Bytes{sizeof(double)});
  const double zero = 0;
  bench.put(sum->data(), std::as_bytes(std::span{&zero, 1}));
  return timed("squared_norm", n, budget, [&] {
    return run_on(bench, budget.clock, [&] {
      bench.backend().add_squared_norm({gradients.data(), static_cast<std::size_t>(n)}, reinterpret_cast<double*>(sum->data()));
    });
  });
}

ElementTime time_cast(Workbench& bench, Precision precision, std::int64_t n, Budget budget) {
  const Vector from{bench, n, 0.1f};
  const auto to = bench.take(n * element_size(precision));
  return timed("cast", n, budget, [&] {
    return run_on(bench, budget.clock, [&] { bench.backend().convert({from.data(), static_cast<std::size_t>(n)}, to->data()); });
  });
}

/// As collectives add: on the host, also where the rank computes on a GPU.
template <class Element>
ElementTime time_add(std::int64_t n, Element half, Budget budget) {
  std::vector<Element> sum(static_cast<std::size_t>(n), half), contribution(sum);
  return timed("add", n, budget, [&] {
    const Seconds start = budget.clock();
    add(sum, contribution);
    return budget.clock() - start;
  });
}

}  // namespace

program::Part training_part(const model::Config& model, std::int64_t most) {
  auto tensors = model::tensors(model);
  std::ranges::stable_partition(tensors, [&](const model::Tensor& tensor) { return model.is_block(tensor.layer); });
  program::Part part;
  part.name = "probe";
  for (const auto& tensor : tensors) {
    const std::int64_t elements = std::min(tensor.elements(), most - part.elements);
    if (elements <= 0) break;
    part.slots.push_back({static_cast<int>(part.slots.size()), part.elements, elements});
    part.elements += elements;
  }
  return part;
}

std::vector<ElementTime> element_times(const compute::Setup& setup, Seconds budget, Bytes memory, Clock clock) {
  constexpr std::int64_t most_on_host = 16 << 20;
  Workbench bench{setup};
  const auto part = training_part(setup.model, vector_length(setup, memory));
  const std::int64_t n = part.elements, on_host = std::min(n, most_on_host);
  const Budget each{budget / 4, clock};
  return {time_adamw(bench, setup.precision, part, each), time_squared_norm(bench, n, each), time_cast(bench, setup.precision, n, each),
          setup.precision == Precision::fp32 ? time_add(on_host, 0.5f, each) : time_add(on_host, to_bf16(0.5f), each)};
}

}  // namespace flotilla::probe
