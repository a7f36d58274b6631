#pragma once
#include <cstddef>
#include <span>

/// Kernels that the host runs in a device's place: what a library of them tells the stand-in driver, which opens it at run time.
namespace flotilla::standin {

struct Dimensions {
  unsigned x = 1, y = 1, z = 1;
};

struct HostLaunch {
  Dimensions grid, block;
  std::size_t shared = 0;
};

struct Argument {
  std::size_t size;
  bool pointer;  ///< into a device's memory
};

struct HostKernel {
  const char* name;  ///< as in the cubin
  std::span<const Argument> arguments;
  /// `arguments`: the place of each; pointers are the host's.
  void (*run)(const HostLaunch&, void* const* arguments);
};

/// A library of kernels exports this; null ends the list.
using KernelList = const HostKernel* (*)();
inline constexpr const char* kernel_list_symbol = "flotilla_standin_kernels";

}  // namespace flotilla::standin
