#pragma once
#include <algorithm>
#include <vector>

#include "products.hpp"

/// Products in a precision that oneDNN does not multiply in on this processor: block by block, operands are widened to fp32 in the
/// scratchpad (exactly), multiplied with sums in fp32, and the result is rounded once to its precision. That is the arithmetic of a product
/// of halves with sums in fp32, up to the order of sums.
namespace flotilla::compute::cpu {

/// A dimension cut into blocks of one size, of which the last may be smaller.
struct BlockedDimension {
  std::int64_t whole = 0, size = 0;

  /// Blocks of at most `limit`, a multiple of 16, and of no more than are needed.
  static BlockedDimension into(std::int64_t whole, std::int64_t limit);
  /// One where there is nothing to cut.
  std::int64_t blocks() const { return std::max<std::int64_t>(1, (whole + size - 1) / size); }
  Rows at(std::int64_t block) const { return {block * size, std::min(whole, (block + 1) * size)}; }
};

class WidenedProduct {
 public:
  explicit WidenedProduct(const ProductSpec&);

  /// Of the copies of a block, which begin at the scratchpad's start. Whatever the product is, at most 12 MiB and a row; 768 KiB and a row
  /// where it is of one thread.
  std::int64_t bytes() const { return bytes_; }
  /// The different products in fp32 that blocks are multiplied by.
  std::vector<ProductSpec> products() const;
  /// Calls bool multiply(const ProductSpec&, const ProductOperands&), one of products(), for each block. Converts on `threads` threads.
  /// False where multiply was.
  template <class Multiply>
  bool run(const ProductOperands&, std::byte* scratch, int threads, const Multiply& multiply) const;

 private:
  struct Block {
    Rows rows, columns, inner;
    bool keeps_a = false, keeps_b = false;  ///< copies of the block before are this one's, too
  };
  ProductSpec product(const Block&) const;
  ProductOperands widen(const Block&, const ProductOperands&, std::byte* scratch, int threads) const;
  void narrow(const Block&, const ProductOperands&, const std::byte* scratch, int threads) const;

  ProductSpec spec_;
  BlockedDimension rows_, columns_, inner_;
  std::int64_t a_ = 0, b_ = 0, bias_ = 0, c_ = 0, bytes_ = 0;
};

template <class Multiply>
bool WidenedProduct::run(const ProductOperands& operands, std::byte* scratch, int threads, const Multiply& multiply) const {
  for (std::int64_t j = 0; j < columns_.blocks(); ++j)
    for (std::int64_t i = 0; i < rows_.blocks(); ++i)
      for (std::int64_t l = 0; l < inner_.blocks(); ++l) {
        const bool keeps_a = j > 0 && rows_.blocks() == 1 && inner_.blocks() == 1, keeps_b = i > 0 && inner_.blocks() == 1;
        const Block block{rows_.at(i), columns_.at(j), inner_.at(l), keeps_a, keeps_b};
        if (!multiply(product(block), widen(block, operands, scratch, threads))) return false;
        if (l + 1 == inner_.blocks()) narrow(block, operands, scratch, threads);
      }
  return true;
}

}  // namespace flotilla::compute::cpu
