#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "flotilla/base/precision.hpp"

/// Matrix products by oneDNN: constructed on first use, kept by shape, run without allocating anything of ours.
namespace flotilla::compute::cpu {

/// c (m, n) = scale ([c +] a (m, k) b (k, n)), or [c +] a b [+ bias (n)] [then ReLU]. Strides are in elements; rows of c are contiguous.
struct ProductSpec {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0, c_row = 0;
  Precision precision = Precision::fp32;  ///< of a, b and bias
  bool c_fp32 = false;                    ///< c is fp32 whatever the precision
  bool accumulate = false, bias = false, relu = false;
  float scale = 1;          ///< other than 1: without bias and ReLU
  bool unaligned = false;   ///< operands begin at any element, not where an allocation or a tensor does
  bool per_thread = false;  ///< run by one thread at a time inside a parallel region, by several at once

  bool operator==(const ProductSpec&) const = default;
};

/// y (n, out) = x (n, in) W^T with W (out, in): a linear layer forward. `x_pitch`, `y_pitch`: from row to row.
ProductSpec linear_forward(Precision, std::int64_t n, std::int64_t out, std::int64_t in);
/// d x (n, in) = d y (n, out) W.
ProductSpec linear_input_gradient(Precision, std::int64_t n, std::int64_t out, std::int64_t in);
/// d W (out, in) += d y^T x, fp32.
ProductSpec linear_weight_gradient(Precision, std::int64_t n, std::int64_t out, std::int64_t in);

struct ProductOperands {
  const void *a = nullptr, *b = nullptr, *bias = nullptr;
  void* c = nullptr;
};

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

/// Scratchpad of a product, without constructing more than its description. Throws as Product does.
std::int64_t scratch_bytes(const ProductSpec&, int threads);
/// "brg:avx512_core_bf16": what oneDNN would run.
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
