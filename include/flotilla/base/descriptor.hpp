#pragma once
#include <unistd.h>

#include "flotilla/base/unique_handle.hpp"

namespace flotilla {

struct DescriptorTraits {
  using Raw = int;
  static Raw null() noexcept { return -1; }
  static void destroy(Raw descriptor) noexcept { ::close(descriptor); }
};
/// An open POSIX file or end of a pipe.
using Descriptor = UniqueHandle<DescriptorTraits>;

}  // namespace flotilla
