#include "widened_product.hpp"

#include "flotilla/base/error.hpp"
#include "kernels.hpp"
#include "parallel.hpp"

namespace flotilla::compute::cpu {
namespace {

/// Stored rows: a matrix, or its transpose where columns are contiguous.
struct StoredRows {
  std::int64_t count, width, pitch;
};
StoredRows stored(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column) {
  return column == 1 ? StoredRows{rows, columns, row} : StoredRows{columns, rows, column};
}
StoredRows rows_of_a(const ProductSpec& s) { return stored(s.m, s.k, s.a_row, s.a_column); }
StoredRows rows_of_b(const ProductSpec& s) { return stored(s.k, s.n, s.b_row, s.b_column); }
StoredRows rows_of_c(const ProductSpec& s) { return {s.m, s.n, s.c_row}; }
StoredRows bias_row(const ProductSpec& s) { return {s.bias ? 1 : 0, s.n, s.n}; }

template <class Body>
void for_rows(const StoredRows& rows, int threads, const Body& body) {
  if (threads == 1) return body(Rows{0, rows.count});
  for_shares(threads, rows.count, [&](int, Rows share) { body(share); });
}

const float* widen_rows(const void* from, std::byte* to, const StoredRows& rows, int threads) {
  float* copy = reinterpret_cast<float*>(to);
  for_rows(rows, threads, [&](Rows share) {
    for (std::int64_t r = share.first; r < share.last; ++r)
      kernels<float16>().widen(static_cast<const float16*>(from) + r * rows.pitch, copy + r * rows.width, rows.width);
  });
  return copy;
}

}  // namespace

WidenedProduct widened(const ProductSpec& s, std::int64_t first) {
  WidenedProduct w{s};
  w.spec.precision = Precision::fp32;
  (s.a_column == 1 ? w.spec.a_row : w.spec.a_column) = rows_of_a(s).width;
  (s.b_column == 1 ? w.spec.b_row : w.spec.b_column) = rows_of_b(s).width;
  if (!s.c_fp32) w.spec.c_row = s.n;
  w.end = first;
  const auto place = [&](const StoredRows& rows) {
    const std::int64_t begin = align_up({w.end}, 64).count;
    w.end = begin + std::int64_t{sizeof(float)} * rows.count * rows.width;
    return begin;
  };
  w.a = place(rows_of_a(s));
  w.b = place(rows_of_b(s));
  w.bias = place(bias_row(s));
  if (!s.c_fp32) w.c = place(rows_of_c(s));
  return w;
}

ProductOperands widen(const ProductSpec& s, const WidenedProduct& w, const ProductOperands& o, std::byte* scratch, int threads) {
  if (s.accumulate && !s.c_fp32) widen_rows(o.c, scratch + w.c, rows_of_c(s), threads);
  return {.a = widen_rows(o.a, scratch + w.a, rows_of_a(s), threads),
          .b = widen_rows(o.b, scratch + w.b, rows_of_b(s), threads),
          .bias = s.bias ? widen_rows(o.bias, scratch + w.bias, bias_row(s), 1) : nullptr,
          .c = s.c_fp32 ? o.c : scratch + w.c};
}

void narrow(const ProductSpec& s, const WidenedProduct& w, const ProductOperands& o, const std::byte* scratch, int threads) {
  if (s.c_fp32) return;
  const auto* copy = reinterpret_cast<const float*>(scratch + w.c);
  for_rows(rows_of_c(s), threads, [&](Rows share) {
    for (std::int64_t r = share.first; r < share.last; ++r)
      kernels<float16>().narrow(copy + r * s.n, static_cast<float16*>(o.c) + r * s.c_row, s.n);
  });
}

}  // namespace flotilla::compute::cpu
