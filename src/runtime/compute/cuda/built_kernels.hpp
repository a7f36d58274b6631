#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace flotilla::compute::cuda {

/// All kernels for one kind of device.
struct KernelImage {
  enum class Form {
    cubin,        ///< runs on its compute capability and on later ones of the same generation
    exact_cubin,  ///< with the instructions of one compute capability alone (sm_90a)
    ptx           ///< which the driver compiles for this device or any later one; ends with a zero
  };
  int architecture = 0;  ///< 10 * major + minor
  Form form = Form::cubin;
  std::span<const std::byte> code;

  std::string name() const;  ///< "sm_90", "sm_90a", "compute_120"
};

/// What nvcc made when the program was built (FlotillaCuda.cmake writes the definition).
struct BuiltKernels {
  std::string toolkit;  ///< "13.0"; empty: a build without nvcc
  std::vector<KernelImage> images;
};
BuiltKernels built_kernels();

/// The image that runs best on a device: machine code of its own architecture, of an earlier one of its generation, PTX. Null: none.
const KernelImage* choose_image(std::span<const KernelImage>, int major, int minor);

/// why_no_kernels of these.
std::string why_none_of(const BuiltKernels&, int major, int minor, int driver_version);

}  // namespace flotilla::compute::cuda
