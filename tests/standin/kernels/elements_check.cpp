#include "check.hpp"

namespace flotilla::compute::cuda {
namespace {

template <class E>
hostgpu::Triple blocks_for(std::size_t n) {
  const std::size_t of_block = element_threads * 16 / sizeof(E);
  return {static_cast<unsigned>((n + of_block - 1) / of_block)};
}

template <class E>
void check_activations(hostgpu::Order order, PointwiseActivation kind, const char* name) {
  constexpr std::size_t n = 2 * element_threads * 4 + 5;
  std::mt19937_64 random{1};
  Buffer<E> x{n}, y{n}, gradient{n}, back{n};
  x.normal(random, 2), gradient.normal(random);
  hostgpu::run(blocks_for<E>(n), {element_threads}, 0, order, [&] { Kernels<E>::activation_forward(y, x, n, kind); });
  E* const saved = kind == PointwiseActivation::relu ? y.get() : x.get();
  hostgpu::run(blocks_for<E>(n), {element_threads}, 0, order, [&] { Kernels<E>::activation_backward(back, gradient, saved, n, kind); });
  Comparison forward{std::string{name} + suffix<E>}, backward{std::string{name} + " backward" + suffix<E>};
  for (std::size_t i = 0; i < n; ++i) {
    const double v = x.at(i), u = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v), s = 1 / (1 + std::exp(-2 * u));
    const double below = 0.5 * std::erfc(-v / std::sqrt(2)), density = std::exp(-v * v / 2) / std::sqrt(2 * M_PI);
    const double gate = 1 / (1 + std::exp(-v));
    const double reference = kind == PointwiseActivation::relu   ? std::max(v, 0.0)
                             : kind == PointwiseActivation::gelu ? v * below
                             : kind == PointwiseActivation::silu ? v * gate
                                                                 : v * s;
    const double rise = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * v * v);
    const double slope = kind == PointwiseActivation::relu   ? (v > 0)
                         : kind == PointwiseActivation::gelu ? below + v * density
                         : kind == PointwiseActivation::silu ? gate * (1 + v * (1 - gate))
                                                             : s + v * 2 * s * (1 - s) * rise;
    // exp has 2 units more on a device, and an argument of |2 u| carries its own error into it.
    const double error = fp32 * (16 + 8 * std::abs(u)) * (1 + std::abs(v));
    forward.add(y.at(i), reference, rounding<E> * std::abs(reference) + error);
    backward.add(
        back.at(i), gradient.at(i) * slope,
        rounding<E> * std::abs(gradient.at(i) * slope) + 4 * error * (1 + std::abs(v)) * std::abs(gradient.at(i)) + subnormal<E> + 1e-30);
  }
}

template <class E>
void check_gated(hostgpu::Order order, std::size_t columns, PointwiseActivation kind, const std::string& name) {
  constexpr std::size_t rows = 5;
  std::mt19937_64 random{2};
  Buffer<E> saved{rows * 2 * columns}, y{rows * columns}, gradient{rows * 2 * columns};
  saved.normal(random), gradient.normal(random);
  Buffer<E> back{rows * 2 * columns};
  back.copy(gradient);
  const std::size_t packs = (columns + 16 / sizeof(E) - 1) / (16 / sizeof(E));
  const auto blocks = blocks_for<E>(rows * packs * 16 / sizeof(E));
  const int width = static_cast<int>(columns);
  hostgpu::run(blocks, {element_threads}, 0, order, [&] { Kernels<E>::gated_forward(y, saved, rows, width, kind); });
  hostgpu::run(blocks, {element_threads}, 0, order, [&] { Kernels<E>::gated_backward(back, back, saved, rows, width, kind); });
  Comparison forward{name + suffix<E>}, backward{name + " backward" + suffix<E>};
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t j = 0; j < columns; ++j) {
      const double v = saved.at(r * 2 * columns + j), o = saved.at(r * 2 * columns + columns + j);
      // Both gates are x times the sigmoid of x or of a polynomial, which rises.
      const double cubic = 2 * std::sqrt(2 / M_PI), inner = kind == PointwiseActivation::silu ? v : cubic * (v + 0.044715 * v * v * v);
      const double rise = kind == PointwiseActivation::silu ? 1 : cubic * (1 + 3 * 0.044715 * v * v), s = 1 / (1 + std::exp(-inner));
      const double g = gradient.at(r * 2 * columns + j), size = (1 + std::abs(v)) * (1 + std::abs(inner)) * (1 + rise);
      const auto add = [&](Comparison& c, double got, double reference, double factor) {
        c.add(got, reference, rounding<E> * std::abs(reference) + 24 * fp32 * size * std::abs(factor) + subnormal<E> + 1e-30);
      };
      add(forward, y.at(r * columns + j), v * s * o, o);
      add(backward, back.at(r * 2 * columns + j), g * o * s * (1 + v * rise * (1 - s)), g * o);
      add(backward, back.at(r * 2 * columns + columns + j), g * v * s, g);
    }
}

template <class E>
void check_rotation(hostgpu::Order order, bool documents) {
  constexpr int rows = 5, length = 3, size = 8, heads = 2, bands = 2, band = 24, step = 12, pitch = 50;
  std::mt19937_64 random{3};
  Buffer<E> x{rows * pitch}, turned{rows * pitch};
  x.normal(random);
  turned.copy(x);
  Buffer<std::int32_t> starts{rows};  // (2, length), of which the last row is not there
  for (int r = 0; r < rows; ++r) starts[r] = r % length > 0 ? 1 : 0;
  Buffer<float> angles{length * size};
  for (int p = 0; p < length; ++p)
    for (int i = 0; i < size / 2; ++i)
      set(angles[p * size + i], std::cos(p * 0.3 + i)), set(angles[p * size + size / 2 + i], std::sin(p * 0.3 + i));
  hostgpu::run({1, bands}, {element_threads}, 0, order, [&] {
    Kernels<E>::rotate(turned, angles, documents ? starts.get() : nullptr, rows, pitch, band, step, heads, size, length);
  });
  Comparison there{std::string{"rotate"} + suffix<E>}, back{std::string{"rotate back"} + suffix<E>};
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < pitch; ++c) {
      const auto at = static_cast<std::size_t>(r * pitch + c);
      const int in_band = c % band, head = in_band / step, i = in_band % step;
      double reference = x.at(at), error = 0;
      if (c < bands * band && head < heads && i < size) {
        const int pair = i % (size / 2);
        const int position = r % length - (documents ? starts[r] : 0);
        const double angle = position * 0.3 + pair,
                     other = x.at(static_cast<std::size_t>(i < size / 2 ? r * pitch + c + size / 2 : r * pitch + c - size / 2));
        reference =
            i < size / 2 ? x.at(at) * std::cos(angle) - other * std::sin(angle) : x.at(at) * std::cos(angle) + other * std::sin(angle);
        error = rounding<E> * std::abs(reference) + 4 * fp32 * (std::abs(x.at(at)) + std::abs(other));
      }
      there.add(turned.at(at), reference, error);
    }
  Buffer<E> returned{rows * pitch};
  returned.copy(turned);
  hostgpu::run({1, bands}, {element_threads}, 0, order, [&] {
    Kernels<E>::rotate(returned, angles, documents ? starts.get() : nullptr, rows, pitch, band, step, heads, -size, length);
  });
  for (std::size_t i = 0; i < x.size(); ++i) back.add(returned.at(i), x.at(i), 4 * rounding<E> * (1 + std::abs(x.at(i))) * 2);
}

template <class E>
void check_adamw(hostgpu::Order order) {
  constexpr std::size_t n = 1029;
  std::mt19937_64 random{4};
  Buffer<float> p{n}, g{n}, m{n}, v{n}, before{n}, m_before{n}, v_before{n};
  Buffer<E> weights{n};
  before.normal(random), g.normal(random), m_before.normal(random, 0.1), v_before.normal(random, 0.01, 0.05);
  for (std::size_t i = 0; i < n; ++i) v_before[i] = std::abs(v_before[i]);
  p.copy(before), m.copy(m_before), v.copy(v_before);
  const AdamWStep s{2e-3f, 0.9f, 0.95f, 1e-8f, 1e-4f, 0.5f, 1.7f};
  hostgpu::run({2}, {element_threads}, 0, order, [&] { Kernels<E>::adamw(p, weights, g, m, v, n, s); });
  Comparison masters{std::string{"adamw"} + suffix<E> + " masters"}, copies{std::string{"adamw"} + suffix<E> + " copies"};
  for (std::size_t i = 0; i < n; ++i) {
    const double gradient = g.at(i) * value(s.gradient_factor);
    const double first = m_before.at(i) * value(s.beta1) + gradient * (1 - value(s.beta1));
    const double second = v_before.at(i) * value(s.beta2) + gradient * gradient * (1 - value(s.beta2));
    const double step = value(s.step_size) * first / (std::sqrt(second) * value(s.second_correction) + value(s.epsilon));
    const double reference = before.at(i) * (1 - value(s.decay)) - step;
    masters.add(p.at(i), reference, fp32 * (3 * std::abs(reference) + 40 * value(s.step_size) * (1 + std::abs(step / value(s.step_size)))));
    masters.add(m.at(i), first, 4 * fp32 * (std::abs(m_before.at(i)) + std::abs(gradient)));
    masters.add(v.at(i), second, 4 * fp32 * (v_before.at(i) + gradient * gradient));
    copies.add(weights.at(i), p.at(i), rounding<E> * std::abs(p.at(i)) * 1.0001 + subnormal<E> + 1e-38);
  }
}

/// The sum of three members, of whom this one is `mine`.
template <class E>
void check_ordered_sum(hostgpu::Order order, int mine) {
  constexpr std::size_t n = 1027, members = 3;
  std::mt19937_64 random{5};
  Buffer<E> pieces{n * members}, others{n * (members - 1)}, sum{n};
  pieces.normal(random);
  for (std::size_t m = 0, other = 0; m < members; ++m) {
    Buffer<E>& to = static_cast<int>(m) == mine ? sum : others;
    for (std::size_t i = 0; i < n; ++i) to[&to == &sum ? i : other * n + i] = pieces[m * n + i];
    if (static_cast<int>(m) != mine) ++other;
  }
  hostgpu::run(blocks_for<E>(n), {element_threads}, 0, order, [&] { Kernels<E>::ordered_sum(sum, others, members, mine, n); });
  Comparison sums{std::string{"ordered_sum"} + suffix<E>};
  for (std::size_t i = 0; i < n; ++i) {
    const auto exact = static_cast<double>(static_cast<float>(pieces.at(i) + pieces.at(n + i)) + static_cast<float>(pieces.at(2 * n + i)));
    sums.add(sum.at(i), exact, rounding<E> * std::abs(exact) * 1.0001 + subnormal<E> + 1e-38);  // the very bits, but for the one rounding
  }
}

template <class E>
void check_pairs(hostgpu::Order order) {
  constexpr std::size_t n = 1027;
  std::mt19937_64 random{5};
  Buffer<E> a{n}, b{n}, pair{n}, narrow{n};
  Buffer<float> wide{n};
  a.normal(random), b.normal(random), wide.normal(random);
  hostgpu::run(blocks_for<E>(n), {element_threads}, 0, order, [&] { Kernels<E>::add(pair, a, b, n); });
  hostgpu::run(blocks_for<E>(n), {element_threads}, 0, order, [&] { Kernels<E>::convert(narrow, wide, n); });
  Comparison pairs{std::string{"add"} + suffix<E>}, narrowed{std::string{"convert"} + suffix<E>};
  for (std::size_t i = 0; i < n; ++i) {
    const double two = a.at(i) + b.at(i);
    pairs.add(pair.at(i), two, (rounding<E> + fp32) * std::abs(two) + subnormal<E> + 1e-38);
    narrowed.add(narrow.at(i), wide.at(i), rounding<E> * std::abs(wide.at(i)) * 1.0001 + subnormal<E> + 1e-38);
  }
}

template <class E>
void all(hostgpu::Order order) {
  check_activations<E>(order, PointwiseActivation::gelu_tanh, "gelu");
  check_activations<E>(order, PointwiseActivation::gelu, "exact gelu");
  check_activations<E>(order, PointwiseActivation::relu, "relu");
  check_activations<E>(order, PointwiseActivation::silu, "silu");
  check_gated<E>(order, 40, PointwiseActivation::silu, "swiglu");
  check_gated<E>(order, 13, PointwiseActivation::silu, "swiglu");
  check_gated<E>(order, 40, PointwiseActivation::gelu_tanh, "geglu");
  check_gated<E>(order, 13, PointwiseActivation::gelu_tanh, "geglu");
  check_rotation<E>(order, false);
  check_rotation<E>(order, true);
  check_adamw<E>(order);
  for (const int mine : {0, 1, 2}) check_ordered_sum<E>(order, mine);
  check_pairs<E>(order);
}

void run_checks(hostgpu::Order order) {
  all<float>(order);
  all<bfloat16>(order);
  all<float16>(order);
}

Checks registered{"elements", &run_checks};

}  // namespace
}  // namespace flotilla::compute::cuda
