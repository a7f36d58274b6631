#pragma once
#include <string>

#include "flotilla/gpu/kernel.hpp"
#include "kernels/signatures.hpp"

namespace flotilla::compute::cuda {

/// A kernel with the types of its parameters.
template <class... Parameters>
class Launcher {
 public:
  Launcher() = default;
  explicit Launcher(gpu::Kernel kernel) : kernel_{std::move(kernel)} {}
  void operator()(const gpu::Stream& stream, const gpu::LaunchShape& shape, Parameters... parameters) const {
    kernel_.launch(stream, shape, parameters...);
  }

 private:
  gpu::Kernel kernel_;
};

/// The most dynamic shared memory that launches ask for.
struct SharedMemory {
  Bytes rows_backward, attention_forward, attention_backward, mma_forward, mma_backward;
  Bytes of(const std::string& kernel) const {
    if (kernel.starts_with("rows_backward")) return rows_backward;
    if (kernel.starts_with("attention_mma_forward")) return mma_forward;
    if (kernel.starts_with("attention_mma")) return mma_backward;
    if (kernel.starts_with("attention_forward")) return attention_forward;
    return kernel.starts_with("attention_") ? attention_backward : Bytes{};
  }
};

/// Every kernel of a module for one element type.
template <class E>
struct KernelSet;

#define FLOTILLA_LAUNCHER(name, S, E, ...) Launcher<__VA_ARGS__> name;
#define FLOTILLA_LOAD(name, S, E, ...) name = Launcher<__VA_ARGS__>{module.kernel(#name #S, shared.of(#name))};
#define FLOTILLA_PLAIN_LAUNCHER(name, ...) Launcher<__VA_ARGS__> name;
#define FLOTILLA_PLAIN_LOAD(name, ...) name = Launcher<__VA_ARGS__>{module.kernel(#name)};
#define FLOTILLA_KERNEL_SET(S, E, MORE)                         \
  template <>                                                   \
  struct KernelSet<E> {                                         \
    FLOTILLA_ELEMENT_KERNELS(FLOTILLA_LAUNCHER, S, E)           \
    MORE(FLOTILLA_LAUNCHER, S, E)                               \
    FLOTILLA_PLAIN_KERNELS(FLOTILLA_PLAIN_LAUNCHER)             \
    KernelSet(const gpu::Module& module, SharedMemory shared) { \
      FLOTILLA_ELEMENT_KERNELS(FLOTILLA_LOAD, S, E)             \
      MORE(FLOTILLA_LOAD, S, E)                                 \
      FLOTILLA_PLAIN_KERNELS(FLOTILLA_PLAIN_LOAD)               \
    }                                                           \
  };
FLOTILLA_ELEMENT_TYPES(FLOTILLA_KERNEL_SET)
#undef FLOTILLA_LAUNCHER
#undef FLOTILLA_LOAD
#undef FLOTILLA_PLAIN_LAUNCHER
#undef FLOTILLA_PLAIN_LOAD
#undef FLOTILLA_KERNEL_SET

}  // namespace flotilla::compute::cuda
