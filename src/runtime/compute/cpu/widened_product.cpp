#include "widened_product.hpp"

#include <array>

#include "flotilla/base/error.hpp"
#include "kernels.hpp"
#include "parallel.hpp"

namespace flotilla::compute::cpu {
namespace {

/// Elements of a block in each dimension: three copies of all threads stay in a last-level cache, those of one thread in its own.
constexpr std::int64_t limit_of_all = 1024, limit_of_a_thread = 256;

/// Rows as they are stored: of a block, or of its transpose where columns are contiguous. Begins at element `first`.
struct StoredRows {
  std::int64_t first, count, width, pitch;
};
StoredRows stored(Rows rows, Rows columns, std::int64_t row, std::int64_t column) {
  const std::int64_t first = rows.first * row + columns.first * column;
  return column == 1 ? StoredRows{first, rows.count(), columns.count(), row} : StoredRows{first, columns.count(), rows.count(), column};
}

template <class Body>
void for_rows(std::int64_t count, int threads, const Body& body) {
  if (threads == 1) return body(Rows{0, count});
  for_shares(threads, count, [&](int, Rows share) { body(share); });
}

template <class E>
void widen_rows(const void* from, std::byte* to, const StoredRows& rows, int threads) {
  const E* first = static_cast<const E*>(from) + rows.first;
  float* copy = reinterpret_cast<float*>(to);
  for_rows(rows.count, threads, [&](Rows share) {
    for (std::int64_t r = share.first; r < share.last; ++r) kernels<E>().widen(first + r * rows.pitch, copy + r * rows.width, rows.width);
  });
}
void widen_rows(Precision p, const void* from, std::byte* to, const StoredRows& rows, int threads) {
  return p == Precision::bf16 ? widen_rows<bfloat16>(from, to, rows, threads) : widen_rows<float16>(from, to, rows, threads);
}

template <class E>
void narrow_rows(const std::byte* from, void* to, const StoredRows& rows, int threads) {
  const auto* copy = reinterpret_cast<const float*>(from);
  E* first = static_cast<E*>(to) + rows.first;
  for_rows(rows.count, threads, [&](Rows share) {
    for (std::int64_t r = share.first; r < share.last; ++r) kernels<E>().narrow(copy + r * rows.width, first + r * rows.pitch, rows.width);
  });
}

}  // namespace

BlockedDimension BlockedDimension::into(std::int64_t whole, std::int64_t limit) {
  if (whole <= limit) return {whole, std::max<std::int64_t>(whole, 1)};
  const std::int64_t blocks = (whole + limit - 1) / limit;
  return {whole, align_up({(whole + blocks - 1) / blocks}, 16).count};
}

WidenedProduct::WidenedProduct(const ProductSpec& s) : spec_{s} {
  FLOTILLA_ASSERT(s.precision != Precision::fp32, "fp32 has nothing to widen to");
  const std::int64_t limit = s.per_thread ? limit_of_a_thread : limit_of_all;
  rows_ = BlockedDimension::into(s.m, limit);
  columns_ = BlockedDimension::into(s.n, limit);
  inner_ = BlockedDimension::into(s.k, limit);
  const auto place = [&](std::int64_t elements) {
    const std::int64_t begin = bytes_;
    bytes_ = align_up({begin + std::int64_t{sizeof(float)} * elements}, 64).count;
    return begin;
  };
  a_ = place(rows_.size * inner_.size);
  b_ = place(inner_.size * columns_.size);
  if (s.bias) bias_ = place(columns_.size);
  if (!s.c_fp32) c_ = place(rows_.size * columns_.size);
}

/// Later blocks of the inner dimension add to those before; what is done to a sum is done with the last one.
ProductSpec WidenedProduct::product(const Block& b) const {
  ProductSpec p = spec_;
  p.precision = Precision::fp32;
  p.m = b.rows.count();
  p.n = b.columns.count();
  p.k = b.inner.count();
  (p.a_column == 1 ? p.a_row : p.a_column) = p.a_column == 1 ? p.k : p.m;
  (p.b_column == 1 ? p.b_row : p.b_column) = p.b_column == 1 ? p.n : p.k;
  if (!p.c_fp32) p.c_row = p.n;
  if (b.inner.first > 0) p.accumulate = true;
  if (b.inner.last == spec_.k) return p;
  p.bias = p.relu = false;
  p.scale = 1;
  return p;
}

std::vector<ProductSpec> WidenedProduct::products() const {
  std::vector<ProductSpec> all;
  // The first block, the second one and the last: others are like the second.
  const auto some = [](const BlockedDimension& cut) {
    const std::int64_t last = cut.blocks() - 1;
    return std::array{cut.at(0), cut.at(std::min<std::int64_t>(1, last)), cut.at(last)};
  };
  for (const Rows rows : some(rows_))
    for (const Rows columns : some(columns_))
      for (const Rows inner : some(inner_))
        if (const ProductSpec p = product({rows, columns, inner}); std::ranges::find(all, p) == all.end()) all.push_back(p);
  return all;
}

ProductOperands WidenedProduct::widen(const Block& b, const ProductOperands& o, std::byte* scratch, int threads) const {
  const ProductSpec& s = spec_;
  const StoredRows c = stored(b.rows, b.columns, s.c_row, 1);
  if (!b.keeps_a) widen_rows(s.precision, o.a, scratch + a_, stored(b.rows, b.inner, s.a_row, s.a_column), threads);
  if (!b.keeps_b) widen_rows(s.precision, o.b, scratch + b_, stored(b.inner, b.columns, s.b_row, s.b_column), threads);
  if (s.bias) widen_rows(s.precision, o.bias, scratch + bias_, stored({0, 1}, b.columns, s.n, 1), 1);
  if (s.accumulate && !s.c_fp32 && b.inner.first == 0) widen_rows(s.precision, o.c, scratch + c_, c, threads);
  return {.a = scratch + a_,
          .b = scratch + b_,
          .bias = s.bias ? scratch + bias_ : nullptr,
          .c = s.c_fp32 ? static_cast<void*>(static_cast<float*>(o.c) + c.first) : scratch + c_};
}

void WidenedProduct::narrow(const Block& b, const ProductOperands& o, const std::byte* scratch, int threads) const {
  const StoredRows c = stored(b.rows, b.columns, spec_.c_row, 1);
  if (spec_.c_fp32) return;
  if (spec_.precision == Precision::bf16) return narrow_rows<bfloat16>(scratch + c_, o.c, c, threads);
  narrow_rows<float16>(scratch + c_, o.c, c, threads);
}

}  // namespace flotilla::compute::cpu
