#pragma once
#include <algorithm>

#include "check.hpp"

/// Attention in fp64, for kernels of any kind.

namespace flotilla::compute::cuda {

struct AttentionCase {
  int length, heads, groups, size, window;
  bool drops;
  int slopes = 0;                            ///< heads of the model, where they have slopes
  std::vector<std::int32_t> documents = {};  ///< lengths of the first sequence's, and of the others backwards; empty: one
  float cap = 0;
};

/// ALiBi's slopes, by two geometric sequences.
inline double reference_slope(int head, int heads) {
  if (heads == 0) return 0;
  int power = 1;
  while (2 * power <= heads) power *= 2;
  const double first = std::pow(2, -8.0 / power);
  return head < power ? std::pow(first, head + 1) : std::pow(std::sqrt(first), 2 * (head - power) + 1);
}

/// As the model lays rows out: all queries, keys, values, or group after group where keys are shared.
inline KernelHeadPlaces places_of(const AttentionCase& c) {
  const int queries = c.heads / c.groups;
  if (queries == 1) return {c.size, c.heads, c.groups, 1, 3 * c.heads * c.size, c.size, c.heads * c.size, c.size, c.heads * c.size};
  return {c.size,
          c.heads,
          c.groups,
          queries,
          c.groups * (queries + 2) * c.size,
          (queries + 2) * c.size,
          queries * c.size,
          (queries + 2) * c.size,
          c.size};
}

/// What the three kernels of a kind work on.
template <class E>
struct AttentionOperands {
  Buffer<E>&qkv, &kv, &output, &gradient, &back;
  Buffer<float>&log_sum_exp, &dots;
  AttentionShape shape;
  KernelDropout drop;
  int length, heads, groups, sequences;
  const std::int32_t* starts = nullptr;  ///< of documents
};

/// Where the documents of each sequence begin, by token.
inline std::vector<std::int32_t> starts_of_documents(const AttentionCase& c, int sequences) {
  std::vector<std::int32_t> starts;
  for (int s = 0; s < sequences && !c.documents.empty(); ++s) {
    auto lengths = c.documents;
    if (s > 0) std::reverse(lengths.begin(), lengths.end());
    int start = 0;
    for (const int length : lengths) {
      starts.insert(starts.end(), static_cast<std::size_t>(length), start);
      start += length;
    }
    if (start != c.length) throw std::logic_error{"documents that do not fill a sequence"};
  }
  return starts;
}

/// The queries behind half of the sequence again, with all keys and values in a cache that has room for more: (rows from the middle on,
/// heads, size).
template <class E, class Kernel>
Buffer<E> cached_outputs(const AttentionCase& c, AttentionOperands<E> o, hostgpu::Order order) {
  constexpr int room = 3;
  const KernelHeadPlaces p = o.shape.places;
  const int cached = c.length / 2, rest = c.length - cached, row = 2 * c.groups * c.size;
  const auto rows = static_cast<std::size_t>(o.sequences * rest), width = static_cast<std::size_t>(c.heads * c.size);
  const auto places = static_cast<std::size_t>(o.sequences * (c.length + room));
  Buffer<E> queries{rows * static_cast<std::size_t>(p.row)}, kv{places * static_cast<std::size_t>(row)}, output{rows * width};
  Buffer<float> lse{static_cast<std::size_t>(o.sequences * c.heads * rest)};
  for (int s = 0; s < o.sequences; ++s)
    for (int i = 0; i < c.length; ++i) {
      const E* from = o.qkv.get() + std::ptrdiff_t{s * c.length + i} * p.row;
      E* to = kv.get() + std::ptrdiff_t{s * (c.length + room) + i} * row;
      if (i >= cached) std::copy_n(from, p.row, queries.get() + std::ptrdiff_t{s * rest + i - cached} * p.row);
      for (int g = 0; g < c.groups; ++g) {
        std::copy_n(from + p.first_key + g * p.key_step, c.size, to + g * c.size);
        std::copy_n(from + p.first_key + g * p.key_step + p.value_offset, c.size, to + (c.groups + g) * c.size);
      }
    }
  AttentionShape shape = o.shape;
  shape.places.first_key = 0, shape.places.key_step = c.size, shape.places.value_offset = c.groups * c.size;
  shape.length = rest, shape.cached = cached, shape.key_row = row, shape.key_rows = c.length + room;
  Kernel::forward({queries, kv, output, o.gradient, o.back, lse, o.dots, shape, o.drop, rest, c.heads, c.groups, o.sequences}, order);
  return output;
}

/// `Kernel::forward` and `backward` (operands, order) run a kind of kernels. `operand_rounding`: half a unit of what probabilities and
/// gradients of scores are rounded to before they are multiplied.
template <class E, class Kernel>
void check_attention(const AttentionCase& c, const std::string& name, double operand_rounding, hostgpu::Order order) {
  constexpr int sequences = 2, first_sequence = 3, first_head = 1;
  const KernelHeadPlaces p = places_of(c);
  const AttentionShape shape{p, c.length, c.window, 0.3f, c.slopes, first_sequence, first_head, 0, p.row, c.length, c.cap};
  const KernelDropout drop = c.drops ? KernelDropout{5, 6, 1u << 30, 4.0f / 3, 1} : KernelDropout{};
  const auto rows = static_cast<std::size_t>(sequences * c.length), width = static_cast<std::size_t>(c.heads * c.size),
             pitch = static_cast<std::size_t>(p.row);
  std::mt19937_64 random{7};
  Buffer<E> qkv{rows * pitch}, output{rows * width}, gradient{rows * width}, back{rows * pitch};
  Buffer<float> lse{static_cast<std::size_t>(sequences * c.heads * c.length)}, dots{lse.size()};
  qkv.normal(random), gradient.normal(random);
  Buffer<std::int32_t> starts{std::max<std::size_t>(1, c.documents.empty() ? 0 : rows)};
  const auto begins = starts_of_documents(c, sequences);
  for (std::size_t i = 0; i < begins.size(); ++i) starts[i] = begins[i];
  const bool documents = !begins.empty(), has_cache = !c.drops && !documents;
  const AttentionOperands<E> operands{qkv,   qkv,  output,   gradient, back,     lse,       dots,
                                      shape, drop, c.length, c.heads,  c.groups, sequences, documents ? starts.get() : nullptr};
  Kernel::forward(operands, order);
  Kernel::backward(operands, order);
  // Nothing drops where there is a cache, and a sequence is one document.
  const Buffer<E> cached = has_cache ? cached_outputs<E, Kernel>(c, operands, order) : Buffer<E>{1};

  Comparison outputs{name + suffix<E>}, sums{name + " log_sum_exp" + suffix<E>}, from_cache{name + " cached" + suffix<E>, has_cache};
  Comparison backs{name + " backward" + suffix<E>};
  std::vector<double> reference(rows * pitch), size(rows * pitch);
  const auto d = static_cast<std::size_t>(c.size);
  for (int s = 0; s < sequences; ++s)
    for (int h = 0; h < c.heads; ++h) {
      const auto query_at = static_cast<std::size_t>(h / p.queries * p.query_group + h % p.queries * p.size);
      const auto key_at = static_cast<std::size_t>(p.first_key + h / p.queries * p.key_step),
                 value_at = key_at + static_cast<std::size_t>(p.value_offset);
      for (int i = 0; i < c.length; ++i) {
        const auto row = static_cast<std::size_t>(s * c.length + i), head = static_cast<std::size_t>(h) * d;
        const int start = documents ? begins[row] : 0, from = std::max(start, c.window > 0 ? i + 1 - c.window : 0);
        const auto many = static_cast<std::size_t>(i - from + 1);
        std::vector<double> score(many), dp(many), mask(many);
        double sum = 0, dot = 0, score_size = 0;
        for (std::size_t k = 0; k < many; ++k) {
          const auto other = static_cast<std::size_t>(s * c.length + from) + k;
          double absolute = 0;
          for (std::size_t e = 0; e < d; ++e) {
            const double product = qkv.at(row * pitch + query_at + e) * qkv.at(other * pitch + key_at + e) * value(shape.scale);
            score[k] += product, absolute += std::abs(product);
            dp[k] += gradient.at(row * width + head + e) * qkv.at(other * pitch + value_at + e);
          }
          if (c.cap > 0) score[k] = value(c.cap) * std::tanh(score[k] / value(c.cap));
          const double behind = reference_slope(first_head + h, c.slopes) * (i - from - static_cast<int>(k));
          score[k] -= behind;
          score_size = std::max(score_size, absolute + behind);
          mask[k] = reference_multiplier(drop, from + static_cast<int>(k), i, first_sequence + s, first_head + h);
        }
        for (const double x : score) sum += std::exp(x);
        // A score's error of about (d + 6) units of its terms goes into exp, once for it and once for the maximum; sums add length / 32.
        const double relative = fp32 * (2 * (c.size + 6) * score_size + c.length / 16 + 40);
        const auto statistics = static_cast<std::size_t>((s * c.heads + h) * c.length + i);
        sums.add(lse.at(statistics), std::log(sum), relative);
        for (std::size_t e = 0; e < d; ++e) {
          double total = 0, absolute = 0;
          for (std::size_t k = 0; k < many; ++k) {
            const double term =
                std::exp(score[k]) / sum * mask[k] * qkv.at((static_cast<std::size_t>(s * c.length + from) + k) * pitch + value_at + e);
            total += term, absolute += std::abs(term);
          }
          const double bound = rounding<E> * std::abs(total) + (relative + operand_rounding) * absolute + subnormal<E> + 1e-30;
          outputs.add(output.at(row * width + head + e), total, bound);
          const int behind = i - c.length / 2;
          if (has_cache && behind >= 0)
            from_cache.add(cached.at(static_cast<std::size_t>(s * (c.length - c.length / 2) + behind) * width + head + e), total, bound);
          dot += output.at(row * width + head + e) * gradient.at(row * width + head + e);  // of what is stored, as the kernel takes it
        }
        for (std::size_t k = 0; k < many; ++k) {
          const auto other = static_cast<std::size_t>(s * c.length + from) + k;
          const double probability = std::exp(score[k]) / sum, ds = probability * (dp[k] * mask[k] - dot) * value(shape.scale) *
                                                                    (c.cap > 0 ? 1 - std::pow(score[k] / value(c.cap), 2) : 1);
          const double ds_size = probability * value(shape.scale) * (10 + std::abs(dp[k] * mask[k]) + std::abs(dot)) * relative * 4 +
                                 operand_rounding * std::abs(ds);
          for (std::size_t e = 0; e < d; ++e) {
            const double q = qkv.at(row * pitch + query_at + e), key = qkv.at(other * pitch + key_at + e),
                         g = gradient.at(row * width + head + e);
            reference[row * pitch + query_at + e] += ds * key, size[row * pitch + query_at + e] += ds_size * std::abs(key);
            reference[other * pitch + key_at + e] += ds * q, size[other * pitch + key_at + e] += ds_size * std::abs(q);
            reference[other * pitch + value_at + e] += probability * mask[k] * g;
            size[other * pitch + value_at + e] += probability * mask[k] * std::abs(g) * (relative * 2 + operand_rounding);
          }
        }
      }
    }
  for (std::size_t i = 0; i < reference.size(); ++i)
    backs.add(back.at(i), reference[i], rounding<E> * std::abs(reference[i]) + size[i] + subnormal<E> + 1e-30);
}

}  // namespace flotilla::compute::cuda
