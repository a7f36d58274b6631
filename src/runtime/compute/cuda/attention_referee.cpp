#include "attention_referee.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "flotilla/base/error.hpp"
#include "flotilla/base/half.hpp"
#include "flotilla/base/philox.hpp"

namespace flotilla::compute::cuda {
namespace {

float widened(float v) { return v; }
float widened(bfloat16 v) { return std::bit_cast<float>(static_cast<std::uint32_t>(v.bits) << 16); }
float widened(float16 v) { return half_to_float(v.bits); }

template <class E>
E narrowed(float v) {
  if constexpr (std::is_same_v<E, float>) {
    return v;
  } else if constexpr (std::is_same_v<E, float16>) {
    return {half_from_float(v)};
  } else {
    const auto bits = std::bit_cast<std::uint32_t>(v);
    return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
  }
}

/// 2^-p for significands of p bits.
template <class E>
constexpr float unit = std::is_same_v<E, float>     ? 0x1p-24f
                       : std::is_same_v<E, float16> ? 0x1p-11f
                                                    : 0x1p-8f;

constexpr std::uint64_t seed = 20251120;

/// Between -1 and 1, by place.
float uniform(std::int64_t at, std::uint64_t stream) {
  const Philox random{seed, stream};
  return static_cast<float>(random(static_cast<std::uint64_t>(at / 4))[static_cast<std::size_t>(at % 4)]) * 0x1p-31f - 1.0f;
}

std::int64_t key_place(const KernelHeadPlaces& p, int group) { return p.first_key + std::int64_t{group} * p.key_step; }
std::int64_t query_place(const KernelHeadPlaces& p, int head) {
  return std::int64_t{head / p.queries} * p.query_group + head % p.queries * p.size;
}

/// Scores of the keys that a query looks at.
constexpr float looked_at = 6;

template <class E>
void add_queries(const AttentionShape& s, E* rows) {
  const KernelHeadPlaces& p = s.places;
  const float factor = looked_at * 3 / (s.scale * static_cast<float>(p.size));  // a key's length squared is a third of its size
  for (int query = 0; query < s.length; ++query)
    for (int head = 0; head < p.heads; ++head) {
      const auto add = [&](int key, int column) {
        return key < 0 || key >= s.length ? 0.0f : widened(rows[std::int64_t{key} * p.row + key_place(p, head / p.queries) + column]);
      };
      E* to = rows + std::int64_t{query} * p.row + query_place(p, head);
      for (int c = 0; c < p.size; ++c) {
        float sum = add(query, c) + add(query + 1, c);
        if (s.window > 0) sum += add(query - s.window, c) + add(query - s.window + 1, c);
        to[c] = narrowed<E>(factor * sum);
      }
    }
}

struct Bound {
  const char* what;
  float of_itself, of_largest;
};

template <class E>
std::string out_of(const Bound& bound, float largest, E ours, E theirs) {
  const float a = widened(ours), b = widened(theirs);
  if (std::abs(a - b) <= bound.of_itself * std::abs(a) + bound.of_largest * largest) return {};
  return text(bound.what, " is ", b, " where ours is ", a);
}

}  // namespace

template <class E>
KnownAttention<E> known_attention(const AttentionShape& s, int sequences) {
  const KernelHeadPlaces& p = s.places;
  const std::int64_t rows = std::int64_t{sequences} * s.length, width = std::int64_t{p.heads} * p.size;
  KnownAttention<E> known{std::vector<E>(static_cast<std::size_t>(rows * p.row)), std::vector<E>(static_cast<std::size_t>(rows * width))};
  for (std::int64_t row = 0; row < rows; ++row)
    for (int group = 0; group < p.groups; ++group)
      for (int c = 0; c < p.size; ++c) {
        const std::int64_t at = row * p.row + key_place(p, group) + c;
        known.qkv[static_cast<std::size_t>(at)] = narrowed<E>(uniform(at, 1));
        known.qkv[static_cast<std::size_t>(at + p.value_offset)] = narrowed<E>(1 + uniform(at, 2) / 2);
      }
  for (int sequence = 0; sequence < sequences; ++sequence) add_queries(s, known.qkv.data() + std::int64_t{sequence} * s.length * p.row);
  for (std::size_t i = 0; i < known.output_gradient.size(); ++i)
    known.output_gradient[i] = narrowed<E>(1 + uniform(static_cast<std::int64_t>(i), 3) / 2);
  return known;
}

template <class E>
std::string difference(const AttentionShape& s, int sequences, const AttentionResults<E>& ours, const AttentionResults<E>& theirs) {
  const KernelHeadPlaces& p = s.places;
  constexpr float u = unit<E>;
  constexpr Bound output{"the output", 6 * u, 0}, statistics{"log_sum_exp", 0x1p-10f, 0x1p-10f}, value{"the gradient of a value", 8 * u, u},
      query{"the gradient of a query", 0, 16 * u}, key{"the gradient of a key", 0, 16 * u};
  float queries = 0, keys = 0, values = 0;
  const std::int64_t rows = std::int64_t{sequences} * s.length;
  const auto each = [&](auto visit) {
    for (std::int64_t row = 0; row < rows; ++row) {
      for (int head = 0; head < p.heads; ++head) visit(row * p.row + query_place(p, head), query, queries, row, head);
      for (int group = 0; group < p.groups; ++group) {
        visit(row * p.row + key_place(p, group), key, keys, row, group);
        visit(row * p.row + key_place(p, group) + p.value_offset, value, values, row, group);
      }
    }
  };
  each([&](std::int64_t at, const Bound&, float& largest, std::int64_t, int) {
    for (int c = 0; c < p.size; ++c) largest = std::max(largest, std::abs(widened(ours.qkv_gradient[static_cast<std::size_t>(at + c)])));
  });
  std::string found;
  const auto place = [&](std::int64_t row, int head) {
    return text(" at token ", row % s.length, " of sequence ", row / s.length, ", head ", head);
  };
  const std::int64_t width = std::int64_t{p.heads} * p.size;
  for (std::int64_t i = 0; i < rows * width && found.empty(); ++i) {
    found = out_of(output, 0, ours.output[static_cast<std::size_t>(i)], theirs.output[static_cast<std::size_t>(i)]);
    if (!found.empty()) return found + place(i / width, static_cast<int>(i % width / p.size));
  }
  for (std::size_t i = 0; i < ours.log_sum_exp.size(); ++i)
    if (found = out_of(statistics, 1, ours.log_sum_exp[i], theirs.log_sum_exp[i]); !found.empty()) return found;
  each([&](std::int64_t at, const Bound& bound, float largest, std::int64_t row, int head) {
    for (int c = 0; c < p.size && found.empty(); ++c) {
      const auto i = static_cast<std::size_t>(at + c);
      found = out_of(bound, largest, ours.qkv_gradient[i], theirs.qkv_gradient[i]);
      if (!found.empty()) found += place(row, head);
    }
  });
  return found;
}

#define FLOTILLA_INSTANTIATE(E)                                           \
  template KnownAttention<E> known_attention(const AttentionShape&, int); \
  template std::string difference(const AttentionShape&, int, const AttentionResults<E>&, const AttentionResults<E>&);
FLOTILLA_INSTANTIATE(float)
FLOTILLA_INSTANTIATE(bfloat16)
FLOTILLA_INSTANTIATE(float16)
#undef FLOTILLA_INSTANTIATE

}  // namespace flotilla::compute::cuda
