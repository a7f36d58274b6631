#include "flotilla/compute/kernel_image.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <vector>

#include "built_kernels.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::compute {
namespace cuda {
namespace {

/// Higher is better; 0: it does not run there.
int fitness(const KernelImage& image, int architecture) {
  const bool earlier = image.architecture <= architecture, same_generation = image.architecture / 10 == architecture / 10;
  switch (image.form) {
    case KernelImage::Form::exact_cubin: return image.architecture == architecture ? 3000 : 0;
    case KernelImage::Form::cubin: return earlier && same_generation ? 2000 + image.architecture : 0;
    case KernelImage::Form::ptx: return earlier ? image.architecture : 0;
  }
  return 0;
}

std::string names(const std::vector<KernelImage>& images) {
  std::string out;
  for (const KernelImage& image : images) out += (out.empty() ? "" : ", ") + image.name();
  return out;
}

}  // namespace

std::string KernelImage::name() const {
  return text(form == Form::ptx ? "compute_" : "sm_", architecture, form == Form::exact_cubin ? "a" : "");
}

const KernelImage* choose_image(std::span<const KernelImage> images, int major, int minor) {
  const int architecture = 10 * major + minor;
  const auto best = std::ranges::max_element(images, {}, [=](const KernelImage& image) { return fitness(image, architecture); });
  return best != images.end() && fitness(*best, architecture) > 0 ? &*best : nullptr;
}

std::string why_none_of(const BuiltKernels& built, int major, int minor, int driver_version) {
  if (built.images.empty()) return "this build has no kernels for GPUs: configure it where nvcc is found, or with -DCUDAToolkit_ROOT=DIR";
  if (!choose_image(built.images, major, minor))
    return text("this build has kernels for ", names(built.images), " and none for sm_", major, minor,
                ": configure it with -DFLOTILLA_CUDA_ARCHITECTURES=", major, minor);
  if (driver_version / 1000 < std::atoi(built.toolkit.c_str()))
    return text("the kernels are of CUDA ", built.toolkit, ", and the driver is of CUDA ", driver_version / 1000, '.',
                driver_version % 1000 / 10, ": update the driver, or build with a toolkit of its CUDA");
  return "";
}

}  // namespace cuda

namespace {

const cuda::BuiltKernels& built() {
  static const cuda::BuiltKernels all = cuda::built_kernels();
  return all;
}

/// The file that replaces the built kernels; "" where the environment names none.
std::string replacement() {
  const char* path = std::getenv("FLOTILLA_GPU_KERNELS");
  return path ? path : "";
}

std::span<const std::byte> read_replacement(const std::string& path) {
  static const std::vector<char> bytes = [&] {
    std::ifstream in{path, std::ios::binary};
    std::vector<char> all{std::istreambuf_iterator<char>{in}, {}};
    FLOTILLA_REQUIRE(!all.empty(), ErrorKind::unavailable, "FLOTILLA_GPU_KERNELS names ", path,
                     ", which cannot be read: name a cubin or fatbin, or unset it");
    return all;
  }();
  return std::as_bytes(std::span{bytes});
}

}  // namespace

std::span<const std::byte> kernel_image(const gpu::DeviceFacts& device) {
  if (const std::string path = replacement(); !path.empty()) return read_replacement(path);
  const cuda::KernelImage* image = cuda::choose_image(built().images, device.major, device.minor);
  FLOTILLA_REQUIRE(image, ErrorKind::unavailable, "GPU ", device.ordinal, " (", device.name,
                   "): ", cuda::why_none_of(built(), device.major, device.minor, 0));
  return image->code;
}

std::string why_no_kernels(const gpu::DeviceFacts& device, int driver_version) {
  return replacement().empty() ? cuda::why_none_of(built(), device.major, device.minor, driver_version) : "";
}

std::string why_no_kernels(int major, int minor) {
  return replacement().empty() ? cuda::why_none_of(built(), major, minor, std::numeric_limits<int>::max()) : "";
}

std::string kernels_description() {
  if (const std::string path = replacement(); !path.empty()) return text(path, " (FLOTILLA_GPU_KERNELS)");
  if (built().images.empty()) return "none: built without nvcc";
  return text("CUDA ", built().toolkit, ": ", cuda::names(built().images));
}

}  // namespace flotilla::compute
