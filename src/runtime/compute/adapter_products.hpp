#pragma once
#include "flotilla/model/adapters.hpp"
#include "product_spec.hpp"

/// The matrix products of an adapter, for n rows. A part's columns of `low` (n, width) begin at part * rank; a piece's columns of y and
/// rows of B at piece.first. Gradients of x and A are those of a linear layer of `width` outputs.
namespace flotilla::compute {

/// low = scale x A^T
ProductSpec adapter_low(Precision, std::int64_t n, const model::AdapterShape&, float scale);
/// y = low B^T, of a piece
ProductSpec adapter_output(Precision, std::int64_t n, const model::AdapterShape&, const model::AdapterPiece&);
/// The gradient of low = scale ([itself +] dy B), of a piece: the first of its part begins the sum, the last scales it.
ProductSpec adapter_low_gradient(Precision, std::int64_t n, const model::AdapterShape&, std::size_t piece, float scale);
/// dx += d low A; rows of dx are `pitch` elements apart.
ProductSpec adapter_input_gradient(Precision, std::int64_t n, const model::AdapterShape&, std::int64_t pitch);
/// dB += dy^T low, of a piece
ProductSpec adapter_b_gradient(Precision, std::int64_t n, const model::AdapterShape&, const model::AdapterPiece&);

/// All of them, each shape once: what a scratchpad must serve.
std::vector<ProductSpec> adapter_products(Precision, std::int64_t n, const model::AdapterShape&, std::int64_t pitch, float scale);

}  // namespace flotilla::compute
