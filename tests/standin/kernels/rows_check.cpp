#include "check.hpp"

namespace flotilla::compute::cuda {
namespace {

struct Case {
  int rows, width;
  bool rms, residual, bias, drops, norm;
  float offset = 0;
};

KernelDropout dropout(bool on) { return on ? KernelDropout{11, 22, 1u << 30, 4.0f / 3, 1} : KernelDropout{}; }

template <class E>
void forward(const Case& c, hostgpu::Order order) {
  std::mt19937_64 random{1};
  const auto n = static_cast<std::size_t>(c.rows * c.width), w = static_cast<std::size_t>(c.width);
  Buffer<E> partial{n}, residual{n}, bias{w}, weight{w}, norm_bias{w}, sum{n}, y{n};
  Buffer<float> stats{2 * static_cast<std::size_t>(c.rows)};
  partial.normal(random), residual.normal(random, 1, 0.5), bias.normal(random), weight.normal(random, 0.1, 1), norm_bias.normal(random);
  const KernelDropout drop = dropout(c.drops);
  const KernelRowPlace place{3, 5, 1};
  const float epsilon = 1e-5f;
  hostgpu::run({static_cast<unsigned>(c.rows)}, {row_threads}, 0, order, [&] {
    Kernels<E>::rows_forward(sum, y, stats, c.residual ? residual.get() : nullptr, partial, c.bias ? bias.get() : nullptr, 0,
                             c.norm ? weight.get() : nullptr, c.rms ? nullptr : norm_bias.get(), c.width, epsilon, c.rms, c.offset, drop,
                             place, nullptr);
  });
  Comparison sums{std::string{"rows_forward"} + suffix<E> + " sum"}, normed{std::string{"rows_forward"} + suffix<E> + " y", c.norm};
  for (std::size_t row = 0; row < static_cast<std::size_t>(c.rows); ++row) {
    const int at = static_cast<int>(row) + place.first_row;
    double mean = 0, squares = 0;
    for (std::size_t j = 0; j < w; ++j) {
      const double m = reference_multiplier(drop, static_cast<int>(j), at % place.length, place.first_sequence + at / place.length, 0);
      const double added = (partial.at(row * w + j) + (c.bias ? bias.at(j) : 0)) * m, kept = c.residual ? residual.at(row * w + j) : 0;
      sums.add(sum.at(row * w + j), added + kept,
               rounding<E> * std::abs(added + kept) + 4 * fp32 * (2 * std::abs(added) + std::abs(kept)) + subnormal<E> + 1e-30);
      mean += sum.at(row * w + j) / c.width;  // the norm reads what is stored
    }
    if (!c.norm) continue;
    if (c.rms) mean = 0;
    for (std::size_t j = 0; j < w; ++j) squares += (sum.at(row * w + j) - mean) * (sum.at(row * w + j) - mean) / c.width;
    const double deviation = 1 / std::sqrt(squares + value(epsilon));
    for (std::size_t j = 0; j < w; ++j) {
      const double x = (sum.at(row * w + j) - mean) * deviation, scaled = x * (value(c.offset) + weight.at(j)),
                   reference = scaled + (c.rms ? 0 : norm_bias.at(j));
      // Sums of `width` terms in at most width / 128 + 12 additions one after the other; a mean's error is of the values' size.
      const double error =
          (c.width / 128 + 16) * fp32 *
          (std::abs(scaled) + deviation * (std::abs(mean) + 1) * (value(c.offset) + std::abs(weight.at(j))) + std::abs(reference));
      normed.add(y.at(row * w + j), reference, rounding<E> * std::abs(reference) + error);
    }
  }
}

template <class E>
void backward(const Case& c, hostgpu::Order order) {
  std::mt19937_64 random{2};
  const auto n = static_cast<std::size_t>(c.rows * c.width), w = static_cast<std::size_t>(c.width), rows = static_cast<std::size_t>(c.rows);
  Buffer<E> gradient{n}, added{n}, x{n}, weight{w}, residual{n}, out{n}, masked{n};
  gradient.normal(random), added.normal(random), x.normal(random, 2, 1), weight.normal(random, 0.1, 1), residual.normal(random);
  Buffer<float> stats{2 * rows};
  for (std::size_t r = 0; r < rows; ++r) {
    double mean = 0, squares = 0;
    for (std::size_t j = 0; j < w; ++j) mean += c.rms ? 0 : x.at(r * w + j) / c.width;
    for (std::size_t j = 0; j < w; ++j) squares += (x.at(r * w + j) - mean) * (x.at(r * w + j) - mean) / c.width;
    set(stats[2 * r], mean), set(stats[2 * r + 1], 1 / std::sqrt(squares + 1e-5));
  }
  const KernelDropout drop = dropout(c.drops);
  const KernelRowPlace place{4, 2, 3};
  const auto weight_of = [&](std::size_t j) { return value(c.offset) + weight.at(j); };
  const unsigned blocks = 2;
  const std::size_t norm_sums = !c.norm ? 0 : c.rms ? 1 : 2, all = norm_sums + (c.bias ? 1 : 0);
  Buffer<float> partials{std::max<std::size_t>(all * blocks * w, 1)}, totals{3 * w};
  totals.fill(0.5f);
  E* from = c.norm ? gradient.get() : out.copy(gradient).get();
  hostgpu::run({blocks}, {row_threads}, all * w * 4, order, [&] {
    Kernels<E>::rows_backward(out, masked, partials, from, c.residual ? added.get() : nullptr, x, c.norm ? weight.get() : nullptr,
                              c.residual ? residual.get() : nullptr, stats, c.rows, c.width, c.rms, c.offset, c.bias, drop, place);
  });
  if (all > 0)
    hostgpu::run({static_cast<unsigned>((w + column_threads - 1) / column_threads), static_cast<unsigned>(all)}, {column_threads}, 0, order,
                 [&] { add_column_sums(totals, totals + w, totals + 2 * w, partials, blocks, c.width); });
  std::vector<double> sums(3 * w, 0.5), sizes(3 * w, 0.5);
  Comparison outs{std::string{"rows_backward"} + suffix<E> + " out", c.norm}, masks{std::string{"rows_backward"} + suffix<E> + " masked"};
  Comparison columns{std::string{"rows_backward"} + suffix<E> + " sums", all > 0};
  for (std::size_t r = 0; r < rows; ++r) {
    const double mean = c.rms ? 0 : value(stats[2 * r]), deviation = value(stats[2 * r + 1]);
    double sum = 0, dot = 0, sum_size = 0, dot_size = 0;
    for (std::size_t j = 0; j < w; ++j) {
      const double g = gradient.at(r * w + j) + (c.residual ? added.at(r * w + j) : 0), h = (x.at(r * w + j) - mean) * deviation;
      if (c.norm) sums[j] += g * h, sizes[j] += std::abs(g * h);
      if (c.norm && !c.rms) sums[w + j] += g, sizes[w + j] += std::abs(g);
      sum += g * weight_of(j) / c.width, sum_size += std::abs(g * weight_of(j)) / c.width;
      dot += g * weight_of(j) * h / c.width, dot_size += std::abs(g * weight_of(j) * h) / c.width;
    }
    if (c.rms) sum = sum_size = 0;
    for (std::size_t j = 0; j < w; ++j) {
      const double g = gradient.at(r * w + j) + (c.residual ? added.at(r * w + j) : 0), h = (x.at(r * w + j) - mean) * deviation;
      const double reference = deviation * (g * weight_of(j) - sum - h * dot) + (c.residual ? residual.at(r * w + j) : 0);
      const double size = deviation * (std::abs(g * weight_of(j)) + sum_size + std::abs(h) * dot_size) + 1;
      if (c.norm) outs.add(out.at(r * w + j), reference, rounding<E> * std::abs(reference) + (c.width / 128 + 20) * fp32 * size);
      const int at = static_cast<int>(r) + place.first_row;
      const double m = reference_multiplier(drop, static_cast<int>(j), at % place.length, place.first_sequence + at / place.length, 0);
      const double kept = out.at(r * w + j) * m;
      masks.add(masked.at(r * w + j), kept, (rounding<E> + 2 * fp32) * std::abs(kept) + subnormal<E> + 1e-30);
      if (c.bias) sums[norm_sums * w + j] += kept, sizes[norm_sums * w + j] += std::abs(kept);
    }
  }
  for (std::size_t i = 0; i < all * w; ++i) columns.add(totals.at(i), sums[i], (c.rows + 8) * fp32 * sizes[i] * 2);
}

template <class E>
void sums_of_columns(hostgpu::Order order) {
  std::mt19937_64 random{3};
  constexpr int rows = 37, width = 70, parts = 3;
  Buffer<E> x{rows * width};
  x.normal(random);
  Buffer<float> partials{parts * width}, totals{width};
  totals.fill(0);
  hostgpu::run({1, parts}, {column_threads}, 0, order, [&] { Kernels<E>::column_sums(partials, x, rows, width); });
  hostgpu::run({1}, {column_threads}, 0, order, [&] { add_column_sums(totals, nullptr, nullptr, partials, parts, width); });
  Comparison all{std::string{"column_sums"} + suffix<E>};
  for (std::size_t j = 0; j < width; ++j) {
    double sum = 0, size = 0;
    for (std::size_t r = 0; r < rows; ++r) sum += x.at(r * width + j), size += std::abs(x.at(r * width + j));
    all.add(totals.at(j), sum, rows * fp32 * size);
  }
}

/// Bands with a gap behind the heads (values): queries and keys have weights of their own.
template <class E>
void norms_of_heads(hostgpu::Order order, const HeadBands& b) {
  constexpr int rows = 5;
  constexpr unsigned blocks = 2;
  constexpr float epsilon = 1e-5f;
  std::mt19937_64 random{4};
  const int heads = b.bands * (b.queries + b.keys);
  const auto n = static_cast<std::size_t>(rows * b.pitch), size = static_cast<std::size_t>(b.size);
  Buffer<E> x{n}, y{n}, raw{static_cast<std::size_t>(rows * heads) * size}, gradient{n}, back{n}, query_weight{size}, key_weight{size};
  x.normal(random), gradient.normal(random), query_weight.normal(random, 0.1, 1), key_weight.normal(random, 0.1, 1);
  y.copy(x), back.copy(gradient);
  Buffer<float> partials{2 * blocks * size}, totals{2 * size};
  totals.fill(0.5f);
  hostgpu::run({rows}, {row_threads}, 0, order, [&] { Kernels<E>::head_norms(y, raw, query_weight, key_weight, b, epsilon); });
  hostgpu::run({blocks}, {row_threads}, 0, order,
               [&] { Kernels<E>::head_norms_backward(back, partials, raw, query_weight, key_weight, rows, b, epsilon); });
  hostgpu::run({static_cast<unsigned>((size + column_threads - 1) / column_threads), 2}, {column_threads}, 0, order,
               [&] { add_column_sums(totals, totals + size, nullptr, partials, blocks, b.size); });
  Comparison normed{std::string{"head_norms"} + suffix<E>}, backs{std::string{"head_norms_backward"} + suffix<E>};
  Comparison kept{std::string{"head_norms"} + suffix<E> + " raw"};
  Comparison columns{std::string{"head_norms_backward"} + suffix<E> + " sums"};
  std::vector<double> sums(2 * size, 0.5), sizes(2 * size, 0.5);
  std::vector<bool> of_head(n);
  for (int row = 0; row < rows; ++row)
    for (int head = 0; head < heads; ++head) {
      const bool is_query = head % (b.queries + b.keys) < b.queries;
      const auto at = static_cast<std::size_t>(row * b.pitch + head / (b.queries + b.keys) * b.band + head % (b.queries + b.keys) * b.size);
      double squares = 0, dot = 0, dot_size = 0;
      for (std::size_t j = 0; j < size; ++j) squares += x.at(at + j) * x.at(at + j) / b.size;
      const double factor = 1 / std::sqrt(squares + value(epsilon));
      const auto weight = [&](std::size_t j) { return value(b.offset) + (is_query ? query_weight.at(j) : key_weight.at(j)); };
      for (std::size_t j = 0; j < size; ++j) {
        const double term = gradient.at(at + j) * weight(j) * x.at(at + j) * factor / b.size;
        dot += term, dot_size += std::abs(term);
      }
      for (std::size_t j = 0; j < size; ++j) {
        const double h = x.at(at + j) * factor, reference = h * weight(j), g = gradient.at(at + j);
        normed.add(y.at(at + j), reference, (rounding<E> + 20 * fp32) * std::abs(reference) + subnormal<E> + 1e-30);
        const double before = factor * (g * weight(j) - h * dot), terms = factor * (std::abs(g * weight(j)) + std::abs(h) * dot_size);
        backs.add(back.at(at + j), before, rounding<E> * std::abs(before) + 32 * fp32 * terms + subnormal<E>);
        sums[(is_query ? 0 : size) + j] += g * h, sizes[(is_query ? 0 : size) + j] += std::abs(g * h);
        of_head[at + j] = true;
        kept.add(raw.at(static_cast<std::size_t>(row * heads + head) * size + j), x.at(at + j), 1e-300);
      }
    }
  for (std::size_t i = 0; i < n; ++i)
    if (!of_head[i]) normed.add(y.at(i), x.at(i), 1e-300), backs.add(back.at(i), gradient.at(i), 1e-300);
  for (std::size_t i = 0; i < 2 * size; ++i) columns.add(totals.at(i), sums[i], (rows * heads + 24) * fp32 * sizes[i] * 2);
}

template <class E>
void all(hostgpu::Order order) {
  // The second width has a tail within 16 bytes, the third is more than one pass of a block.
  for (const Case& c : {Case{5, 64, false, true, true, true, true}, Case{3, 77, true, false, false, true, true},
                        Case{3, 77, true, true, true, false, true, 1}, Case{2, 1160, false, true, false, false, true},
                        Case{3, 72, false, true, true, true, false}}) {
    forward<E>(c, order);
    backward<E>(c, order);
  }
  sums_of_columns<E>(order);
  norms_of_heads<E>(order, {50, 24, 2, 2, 1, 6});
  norms_of_heads<E>(order, {5 * 80, 5 * 80, 1, 2, 2, 80});
  norms_of_heads<E>(order, {50, 24, 2, 2, 1, 6, 1});
  norms_of_heads<E>(order, {4 * 200, 4 * 200, 1, 2, 2, 200});
}

void run_checks(hostgpu::Order order) {
  all<float>(order);
  all<bfloat16>(order);
  all<float16>(order);
}

Checks registered{"rows", &run_checks};

}  // namespace
}  // namespace flotilla::compute::cuda
