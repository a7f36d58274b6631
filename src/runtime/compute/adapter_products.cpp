#include "adapter_products.hpp"

#include <algorithm>

namespace flotilla::compute {

using model::AdapterPiece;
using model::AdapterShape;

ProductSpec adapter_low(Precision p, std::int64_t n, const AdapterShape& a, float scale) {
  ProductSpec low = linear_forward(p, n, a.width(), a.in);
  low.scale = scale;
  return low;
}

ProductSpec adapter_output(Precision p, std::int64_t n, const AdapterShape& a, const AdapterPiece& piece) {
  ProductSpec output = linear_forward(p, n, piece.count, a.rank);
  output.a_row = a.width();
  output.c_row = a.out;
  return output;
}

ProductSpec adapter_low_gradient(Precision p, std::int64_t n, const AdapterShape& a, std::size_t piece, float scale) {
  const AdapterPiece& here = a.pieces[piece];
  const auto of_part = [&](const AdapterPiece& other) { return other.part == here.part; };
  const auto at = a.pieces.begin() + static_cast<std::ptrdiff_t>(piece);
  ProductSpec gradient = linear_input_gradient(p, n, here.count, a.rank);
  gradient.a_row = a.out;
  gradient.c_row = a.width();
  gradient.accumulate = std::any_of(a.pieces.begin(), at, of_part);
  if (std::none_of(at + 1, a.pieces.end(), of_part)) gradient.scale = scale;
  return gradient;
}

ProductSpec adapter_input_gradient(Precision p, std::int64_t n, const AdapterShape& a, std::int64_t pitch) {
  ProductSpec gradient = linear_input_gradient(p, n, a.width(), a.in);
  gradient.c_row = pitch;
  gradient.accumulate = true;
  return gradient;
}

ProductSpec adapter_b_gradient(Precision p, std::int64_t n, const AdapterShape& a, const AdapterPiece& piece) {
  ProductSpec gradient = linear_weight_gradient(p, n, piece.count, a.rank);
  gradient.a_column = a.out;
  gradient.b_row = a.width();
  return gradient;
}

std::vector<ProductSpec> adapter_products(Precision p, std::int64_t n, const AdapterShape& a, std::int64_t pitch, float scale) {
  std::vector<ProductSpec> all{adapter_low(p, n, a, scale), adapter_input_gradient(p, n, a, pitch),
                               linear_weight_gradient(p, n, a.width(), a.in)};
  const auto add = [&](const ProductSpec& spec) {
    if (std::ranges::find(all, spec) == all.end()) all.push_back(spec);
  };
  for (std::size_t piece = 0; piece < a.pieces.size(); ++piece) {
    add(adapter_output(p, n, a, a.pieces[piece]));
    add(adapter_low_gradient(p, n, a, piece, scale));
    add(adapter_b_gradient(p, n, a, a.pieces[piece]));
  }
  return all;
}

}  // namespace flotilla::compute
