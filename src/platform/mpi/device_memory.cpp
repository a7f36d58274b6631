#include "flotilla/mpi/device_memory.hpp"

#include <dlfcn.h>

#include "flotilla/base/text.hpp"
#include "flotilla/mpi/session.hpp"

namespace flotilla::mpi {

std::string why_no_device_memory() {
  using Query = int();
  static constexpr const char* name = "MPIX_Query_cuda_support";
  auto* const query = reinterpret_cast<Query*>(dlsym(RTLD_DEFAULT, name));
  if (query == nullptr) return text(library_version(), " does not say whether it takes device memory: it has no ", name);
  return query() == 1 ? std::string{} : text(library_version(), " takes no device memory, by its own word (", name, ")");
}

}  // namespace flotilla::mpi
