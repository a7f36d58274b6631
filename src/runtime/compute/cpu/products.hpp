#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "product_spec.hpp"

/// Matrix products by oneDNN: constructed on first use, kept by shape, run without allocating anything of ours.
namespace flotilla::compute::cpu {

/// One constructed product.
class Product {
 public:
  /// Construct and run under the OpenMP thread count `threads`; `contexts` threads may run it at once. Throws Error{internal} where oneDNN
  /// has nothing better than its reference code.
  Product(const ProductSpec&, int threads, int contexts);
  Product(Product&&) noexcept;
  Product& operator=(Product&&) noexcept;
  ~Product();

  /// False when oneDNN fails. `scratch` holds at least scratch_bytes(). No two runs at once with one context.
  bool run(const ProductOperands&, std::byte* scratch, int context = 0) noexcept;
  std::int64_t scratch_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Whether oneDNN multiplies operands of a precision on this processor, by more than its reference code: fp32, and bf16 from AVX-512 on.
/// In others, operands are widened to fp32 block by block (WidenedProduct).
bool multiplies(Precision);
/// Scratchpad of a product, without constructing more than its description. Throws as Product does.
std::int64_t scratch_bytes(const ProductSpec&, int threads);
/// "brg:avx512_core_bf16": what oneDNN would run; "gemm:jit, bf16 by fp32 products" where operands are widened.
std::string implementation(const ProductSpec&, int threads);
/// "oneDNN 2.6.3".
std::string library_version();

/// Products by shape.
class Products {
 public:
  explicit Products(int threads) : threads_{threads} {}
  void set_scratch(std::span<std::byte> scratch) { scratch_ = scratch; }

  /// Runs on all threads; the caller has set OpenMP's thread count to ours. Throws Error{internal} when the scratchpad is too small or
  /// oneDNN fails.
  void run(const ProductSpec&, const ProductOperands&);
  /// A product for use inside a parallel region; the reference stays valid.
  Product& per_thread(const ProductSpec&);
  /// A thread's part of the scratchpad for products of at most `bytes` each. Throws Error{internal} when it is too small.
  std::byte* thread_scratch(int thread, std::int64_t bytes) const;
  void require_scratch(std::int64_t bytes) const;

 private:
  struct Hash {
    std::size_t operator()(const ProductSpec&) const noexcept;
  };
  Product& find(const ProductSpec&);

  int threads_;
  std::span<std::byte> scratch_;
  std::unordered_map<ProductSpec, Product, Hash> products_;
};

}  // namespace flotilla::compute::cpu
