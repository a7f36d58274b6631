#pragma once
// Kernels on a device, for the checks of tests/standin/kernels: buffers are the host's, and a launch carries those that it is given to the
// device and back.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>

#include "signatures.hpp"

namespace hostgpu {

struct Triple {
  unsigned x = 1, y = 1, z = 1;
};
/// Without meaning here: a device has an order of its own.
struct Order {
  std::uint64_t seed = 0;
};

/// The shape of the launches that follow.
void set_shape(Triple grid, Triple block, std::size_t shared);

template <class Body>
void run(Triple grid, Triple block, std::size_t shared, Order, Body&& body) {
  set_shape(grid, block, shared);
  body();
}

}  // namespace hostgpu

namespace flotilla::compute::cuda {

/// 10 * major + minor of the device.
int architecture();

void* take(std::size_t bytes);
void give_back(void*);

/// The place on the device of an address in a buffer, which is carried there first. Throws Error{internal} for any other address.
void* carry(const void*);
/// Launches, waits and carries the buffers back.
void launch(const char* kernel, std::span<void*> arguments);

/// A kernel, called as the function that it is on the host.
template <class... Parameters>
struct DeviceKernel {
  const char* name;
  void operator()(Parameters... parameters) const {
    std::tuple<Parameters...> values{there(parameters)...};
    std::apply(
        [&](auto&... each) {
          std::array<void*, sizeof...(Parameters)> places{const_cast<void*>(static_cast<const void*>(&each))...};
          launch(name, places);
        },
        values);
  }

 private:
  template <class T>
  static T there(T value) {
    if constexpr (std::is_pointer_v<T>)
      return static_cast<T>(carry(value));
    else
      return value;
  }
};

#define FLOTILLA_DEVICE_ELEMENT(name, S, E, ...) inline constexpr DeviceKernel<__VA_ARGS__> name##S{#name #S};
#define FLOTILLA_DEVICE(name, ...) inline constexpr DeviceKernel<__VA_ARGS__> name{#name};
#define FLOTILLA_DEVICE_FOR(S, E, MORE) FLOTILLA_ELEMENT_KERNELS(FLOTILLA_DEVICE_ELEMENT, S, E) MORE(FLOTILLA_DEVICE_ELEMENT, S, E)
FLOTILLA_ELEMENT_TYPES(FLOTILLA_DEVICE_FOR)
FLOTILLA_PLAIN_KERNELS(FLOTILLA_DEVICE)
#undef FLOTILLA_DEVICE_FOR
#undef FLOTILLA_DEVICE_ELEMENT
#undef FLOTILLA_DEVICE

/// Kernels<E>::name is name_f32, name_bf16 or name_f16.
template <class E>
struct Kernels;
#define FLOTILLA_MEMBER(name, S, E, ...) static constexpr const DeviceKernel<__VA_ARGS__>& name = cuda::name##S;
#define FLOTILLA_KERNELS_OF(S, E, MORE)             \
  template <>                                       \
  struct Kernels<E> {                               \
    FLOTILLA_ELEMENT_KERNELS(FLOTILLA_MEMBER, S, E) \
    MORE(FLOTILLA_MEMBER, S, E)                     \
  };
FLOTILLA_ELEMENT_TYPES(FLOTILLA_KERNELS_OF)
#undef FLOTILLA_KERNELS_OF
#undef FLOTILLA_MEMBER

}  // namespace flotilla::compute::cuda
