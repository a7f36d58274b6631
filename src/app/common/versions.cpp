#include "app/common/versions.hpp"

#include "flotilla/base/error.hpp"
#include "flotilla/compression/input_stream.hpp"
#include "flotilla/compute/backend.hpp"
#include "flotilla/compute/gpu_rates.hpp"
#include "flotilla/compute/kernel_image.hpp"
#include "flotilla/gpu/driver.hpp"
#include "flotilla/mpi/session.hpp"
#include "flotilla/nccl/library.hpp"
#include "flotilla/options/table.hpp"
#include "flotilla/sentencepiece/processor.hpp"
#include "flotilla/store/file.hpp"
#include "flotilla/topology/topology.hpp"
#include "flotilla/ucx/worker.hpp"
#include "flotilla/unicode/regex.hpp"

namespace flotilla::app {
namespace {

/// The matrix library and what it picked for this CPU; --version answers on a CPU that cannot compute, too.
std::string compute_version() {
  compute::Setup setup;
  setup.model = model::built_in("gpt2-tiny");
  setup.length = setup.model.positions;
  try {
    return compute::make_backend(setup)->description();
  } catch (const Error& error) {
    return text("not usable here: ", error.what());
  }
}

/// The GPUs that this process sees, or why there are none; --version answers beside a broken driver, too.
std::string gpu_version() {
  try {
    return gpu::driver_description();
  } catch (const Error& error) {
    return text("not usable here: ", error.what());
  }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> versions() {
  return {{"flotilla", FLOTILLA_VERSION},
          {"compiler", text("g++ ", __VERSION__)},
          {"mpi", mpi::library_version()},
          {"topology", topology::library_version()},
          {"ucx", ucx::library_version()},
          {"store", store::library_version()},
          {"compute", compute_version()},
          {"gpu", gpu_version()},
          {"nccl", nccl::library_description()},
          {"cudnn", compute::attention_library()},
          {"kernels", compute::kernels_description()},
          {"options", options::library_version()},
          {"unicode", unicode::library_version()},
          {"sentencepiece", sentencepiece::library_version()},
          {"compression", compression::library_version()}};
}

}  // namespace flotilla::app
