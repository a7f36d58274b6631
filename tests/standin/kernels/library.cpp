// The product's kernels as a library for the stand-in driver.
#include <cstdlib>
#include <tuple>

#include "host_kernels.hpp"
#include "kernel_base.hpp"
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

namespace flotilla::standin {
namespace {

/// FLOTILLA_STANDIN_SEED: another order of threads and blocks for each seed but 0.
hostgpu::Order order() {
  const char* seed = std::getenv("FLOTILLA_STANDIN_SEED");
  return {seed ? std::strtoull(seed, nullptr, 10) : 0};
}

template <auto kernel>
struct Runner;
template <class... Parameters, void (*kernel)(Parameters...)>
struct Runner<kernel> {
  static constexpr Argument arguments[] = {{sizeof(Parameters), std::is_pointer_v<Parameters>}...};

  static void run(const HostLaunch& launch, void* const* at) {
    const auto values = read(at, std::index_sequence_for<Parameters...>{});
    hostgpu::run({launch.grid.x, launch.grid.y, launch.grid.z}, {launch.block.x, launch.block.y, launch.block.z}, launch.shared, order(),
                 [&] { std::apply(kernel, values); });
  }
  template <std::size_t... i>
  static std::tuple<Parameters...> read(void* const* at, std::index_sequence<i...>) {
    return {*static_cast<Parameters*>(at[i])...};
  }
};

namespace cuda = compute::cuda;

#define FLOTILLA_ENTRY(name, ...) HostKernel{#name, Runner<&cuda::name>::arguments, &Runner<&cuda::name>::run},
#define FLOTILLA_ELEMENT_ENTRY(name, S, E, ...) HostKernel{#name #S, Runner<&cuda::name##S>::arguments, &Runner<&cuda::name##S>::run},
#define FLOTILLA_ENTRIES_OF(S, E, MORE) FLOTILLA_ELEMENT_KERNELS(FLOTILLA_ELEMENT_ENTRY, S, E) MORE(FLOTILLA_ELEMENT_ENTRY, S, E)
const HostKernel kernels[] = {FLOTILLA_ELEMENT_TYPES(FLOTILLA_ENTRIES_OF) FLOTILLA_PLAIN_KERNELS(FLOTILLA_ENTRY) HostKernel{}};

}  // namespace

extern "C" __attribute__((visibility("default"))) const HostKernel* flotilla_standin_kernels() { return kernels; }

}  // namespace flotilla::standin
