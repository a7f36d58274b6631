#include "app/versions.hpp"

#include "flotilla/base/text.hpp"
#include "flotilla/compute/backend.hpp"
#include "flotilla/mpi/session.hpp"
#include "flotilla/options/table.hpp"
#include "flotilla/store/file.hpp"
#include "flotilla/topology/topology.hpp"
#include "flotilla/ucx/worker.hpp"

namespace flotilla::app {

std::vector<std::pair<std::string, std::string>> versions() {
  return {{"flotilla", FLOTILLA_VERSION},         {"compiler", text("g++ ", __VERSION__)},
          {"mpi", mpi::library_version()},        {"topology", topology::library_version()},
          {"ucx", ucx::library_version()},        {"store", store::library_version()},
          {"options", options::library_version()}};
}

}  // namespace flotilla::app
