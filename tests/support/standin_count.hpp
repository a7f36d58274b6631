#pragma once
#include <dlfcn.h>

#include <cstdint>

namespace flotilla::tests {

/// Kernels, products, copies and events that streams were given since the process began, counted by the stand-in driver; 0 on NVIDIA's.
inline std::int64_t standin_count() {
  using Count = std::int64_t (*)();
  static const auto count = reinterpret_cast<Count>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "flotilla_standin_enqueued"));
  return count ? count() : 0;
}

}  // namespace flotilla::tests
