#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "flotilla/gpu/device.hpp"
#include "product_spec.hpp"

/// Matrix products by cuBLASLt, which is opened at run time: planned once for each shape, with the algorithm that is then kept.
namespace flotilla::compute::cuda {

/// Files of cuBLASLt to try, the best first: CUDA 13's, where the driver is of CUDA 13 and every device is sm_75 or later, then CUDA 12's.
std::vector<std::string> library_files(const gpu::Presence&);

/// "cuBLASLt 13.1.0". Throws Error{unavailable} where there is none.
std::string library_version();

/// Most scratch memory that an algorithm may ask for.
inline constexpr Bytes product_workspace{32 << 20};

/// Throws Error{unavailable} where there is no cuBLASLt.
void require_library();

class CublasProducts {
 public:
  /// `tf32`: fp32 operands are rounded to TF32. Throws Error{unavailable} where there is no cuBLASLt.
  CublasProducts(gpu::DeviceContext, bool tf32);
  ~CublasProducts();
  CublasProducts(const CublasProducts&) = delete;
  CublasProducts& operator=(const CublasProducts&) = delete;

  void set_workspace(std::span<std::byte> workspace) { workspace_ = workspace; }
  /// Enqueues; operands are in the device's memory. Throws Error{unavailable} where cuBLASLt has no algorithm for the shape.
  void run(const ProductSpec&, const ProductOperands&, gpu::Stream&);
  /// "cuBLASLt 13.1.0", "cuBLASLt 13.1.0 (TF32)".
  std::string version() const;

 private:
  struct State;
  struct Plan;
  Plan& find(const ProductSpec&);

  gpu::DeviceContext device_;
  bool tf32_;
  std::unique_ptr<State> state_;
  std::vector<std::unique_ptr<Plan>> plans_;
  std::span<std::byte> workspace_;
};

}  // namespace flotilla::compute::cuda
