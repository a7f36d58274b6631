#include "elements.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/compute/backend.hpp"
#include "flotilla/model/tensors.hpp"
#include "samples.hpp"

namespace flotilla::probe {
namespace {

constexpr int least_samples = 3, most_samples = 200;

/// How long to measure, and the clock to measure with.
struct Budget {
  Seconds time;
  Seconds (*clock)();
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

/// The first run, which touches the memory, is dropped.
ElementTime timed(const std::string& operation, std::size_t elements, Budget budget, const std::function<void()>& run) {
  run();
  std::vector<double> times;
  const Seconds end = now() + budget.time;
  while (static_cast<int>(times.size()) < least_samples || (now() < end && static_cast<int>(times.size()) < most_samples)) {
    const Seconds start = budget.clock();
    run();
    times.push_back((budget.clock() - start).value);
  }
  return {operation, Seconds{median(times)} * (1e6 / static_cast<double>(elements)), relative_scatter(times)};
}

std::size_t vector_length(const model::Config& model) {
  return static_cast<std::size_t>(std::clamp<std::int64_t>(model::parameter_count(model), 64 << 10, 16 << 20));
}

ElementTime time_adamw(compute::Backend& backend, Precision precision, std::size_t n, Budget budget) {
  std::vector<float> parameters(n, 0.1f), gradients(n, 1e-3f), moment1(n, 1e-4f), moment2(n, 1e-6f);
  std::vector<std::byte> copy(precision == Precision::fp32 ? 0 : n * static_cast<std::size_t>(element_size(precision).count));
  std::byte* weights = precision == Precision::fp32 ? reinterpret_cast<std::byte*>(parameters.data()) : copy.data();
  program::Part part;
  part.name = "probe";
  part.elements = static_cast<std::int64_t>(n);
  part.slots = {{0, 0, part.elements}};
  const std::vector<std::uint8_t> decays{1};
  compute::AdamW step;
  step.learning_rate = 1e-6f;
  return timed("adamw", n, budget, [&] {
    backend.adamw(step, part, decays, parameters.data(), weights, gradients.data(), moment1.data(), moment2.data());
    ++step.step;
  });
}

ElementTime time_cast(compute::Backend& backend, Precision precision, std::size_t n, Budget budget) {
  const std::vector<float> from(n, 0.1f);
  std::vector<std::byte> to(n * static_cast<std::size_t>(element_size(precision).count));
  return timed("cast", n, budget, [&] { backend.convert(from, to.data()); });
}

template <class Element>
ElementTime time_add(std::size_t n, Element half, Budget budget) {
  std::vector<Element> sum(n, half), contribution(n, half);
  return timed("add", n, budget, [&] { add(sum, contribution); });
}

}  // namespace

std::vector<ElementTime> element_times(const model::Config& model, int length, Precision precision, int threads, Seconds budget,
                                       Seconds (*clock)()) {
  const auto backend = compute::make_backend({model, length, 1, 0, precision, threads, 0});
  const std::size_t n = vector_length(model);
  const Budget each{budget / 3, clock};
  return {time_adamw(*backend, precision, n, each), time_cast(*backend, precision, n, each),
          precision == Precision::fp32 ? time_add(n, 0.5f, each) : time_add(n, to_bf16(0.5f), each)};
}

}  // namespace flotilla::probe
