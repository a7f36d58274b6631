#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "flotilla/gpu/device.hpp"
#include "product_spec.hpp"

/// Matrix products by cuBLASLt, which is opened at run time: planned once for each shape and alignment of its operands, with the algorithm
/// that is then kept.
namespace flotilla::compute::cuda {

/// Files of cuBLASLt to try, the best first: CUDA 13's, where the driver is of CUDA 13 and every device is sm_75 or later, then CUDA 12's.
std::vector<std::string> library_files(const gpu::Presence&);

/// "cuBLASLt 13.1.0". Throws Error{unavailable} where there is none.
std::string library_version();

/// Most scratch memory that an algorithm may ask for.
inline constexpr Bytes product_workspace{32 << 20};
/// Of its address, in bytes: on sm_90 cuBLASLt 13 refuses products with CUBLAS_STATUS_INVALID_VALUE where a workspace has less.
inline constexpr std::int64_t workspace_alignment = 256;

/// Throws Error{unavailable} where there is no cuBLASLt.
void require_library();

struct ProductCall {
  ProductSpec spec;
  ProductOperands operands;
};
struct SplitProduct {
  ProductCall rest, main;
};
/// A product in 16-bit elements whose rows begin at multiples of 16 bytes but do not end there, as that of a vocabulary of 50,257, in two:
/// `main` has a multiple of 8 columns, rows or summands, `rest` the others. For the whole cuBLASLt 13.1 takes 1.5 to 7 times as long
/// (H100, the sizes of GPT-2's head). Summands: `rest` goes first, so that what is rounded between the two is the small part. Nothing for
/// other products, and for sizes below 1024.
std::optional<SplitProduct> split_product(const ProductSpec&, const ProductOperands&);

class CublasProducts {
 public:
  /// `tf32`: fp32 operands are rounded to TF32. Throws Error{unavailable} where there is no cuBLASLt.
  CublasProducts(gpu::DeviceContext, bool tf32);
  ~CublasProducts();
  CublasProducts(const CublasProducts&) = delete;
  CublasProducts& operator=(const CublasProducts&) = delete;

  /// At a multiple of workspace_alignment.
  void set_workspace(std::span<std::byte>);
  /// Enqueues; operands are in the device's memory. Throws Error{unavailable} where cuBLASLt has no algorithm for the shape.
  void run(const ProductSpec&, const ProductOperands&, gpu::Stream&);
  /// "cuBLASLt 13.1.0", "cuBLASLt 13.1.0 (TF32)".
  std::string version() const;

 private:
  struct State;
  struct Plan;
  void run_whole(const ProductSpec&, const ProductOperands&, gpu::Stream&);
  Plan& find(const ProductSpec&, const ProductOperands&);

  gpu::DeviceContext device_;
  bool tf32_;
  std::unique_ptr<State> state_;
  std::vector<std::unique_ptr<Plan>> plans_;
  std::span<std::byte> workspace_;
};

}  // namespace flotilla::compute::cuda
