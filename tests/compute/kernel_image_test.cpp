#include "flotilla/compute/kernel_image.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "cuda/built_kernels.hpp"
#include "cuda/products.hpp"
#include "flotilla/base/error.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::compute::cuda {
namespace {

using Form = KernelImage::Form;

std::string chosen(const std::vector<KernelImage>& images, int architecture) {
  const KernelImage* image = choose_image(images, architecture / 10, architecture % 10);
  return image ? image->name() : "none";
}

TEST(ChooseImage, TakesTheBestThatRunsThere) {
  const std::vector<KernelImage> images{{75, Form::cubin, {}},       {80, Form::cubin, {}}, {86, Form::cubin, {}},
                                        {90, Form::exact_cubin, {}}, {90, Form::cubin, {}}, {90, Form::ptx, {}}};
  EXPECT_EQ(chosen(images, 75), "sm_75");
  EXPECT_EQ(chosen(images, 80), "sm_80");
  EXPECT_EQ(chosen(images, 89), "sm_86") << "of its generation, the latest that is not after it";
  EXPECT_EQ(chosen(images, 90), "sm_90a");
  EXPECT_EQ(chosen(images, 100), "compute_90") << "another generation runs no machine code of this one";
  EXPECT_EQ(chosen(images, 70), "none");
  EXPECT_EQ(chosen({}, 90), "none");
}

TEST(WhyNone, NamesTheWayOut) {
  BuiltKernels built;
  EXPECT_NE(why_none_of(built, 9, 0, 13000).find("configure it where nvcc is found"), std::string::npos);
  built = {"13.0", {{75, Form::cubin, {}}, {90, Form::cubin, {}}}};
  EXPECT_EQ(why_none_of(built, 9, 0, 13000), "");
  EXPECT_EQ(why_none_of(built, 8, 0, 13000),
            "this build has kernels for sm_75, sm_90 and none for sm_80: configure it with -DFLOTILLA_CUDA_ARCHITECTURES=80");
  const std::string old = why_none_of(built, 9, 0, 12040);
  EXPECT_NE(old.find("the driver is of CUDA 12.4: update the driver"), std::string::npos) << old;
}

TEST(LibraryFiles, AreOfACudaThatDriverAndDevicesKnow) {
  gpu::Presence here;
  here.driver_version = 13000;
  here.devices.resize(2);
  here.devices[0].major = here.devices[1].major = 9;
  EXPECT_EQ(library_files(here), (std::vector<std::string>{"libcublasLt.so.13", "libcublasLt.so.12"}));
  here.devices[1].major = 7;  // a V100
  EXPECT_EQ(library_files(here), std::vector<std::string>{"libcublasLt.so.12"});
  here.devices[1].minor = 5;
  EXPECT_EQ(library_files(here).front(), "libcublasLt.so.13");
  here.driver_version = 12080;
  EXPECT_EQ(library_files(here), std::vector<std::string>{"libcublasLt.so.12"});
}

TEST(BuiltKernels, AreMachineCodeOrPtx) {
  const BuiltKernels built = built_kernels();
  EXPECT_EQ(built.toolkit.empty(), built.images.empty());
  for (const KernelImage& image : built.images) {
    const auto* bytes = reinterpret_cast<const char*>(image.code.data());
    if (image.form == Form::ptx) {
      EXPECT_NE(std::strstr(bytes, ".visible .entry rows_forward_bf16"), nullptr) << image.name();
      EXPECT_EQ(std::strlen(bytes), image.code.size()) << "the driver reads PTX to its zero";
    } else {
      EXPECT_EQ(std::memcmp(bytes, "\177ELF", 4), 0) << image.name();
    }
  }
}

TEST(KernelImage, AFileOfTheEnvironmentGoesFirst) {
  const tests::TemporaryFolder folder;
  gpu::DeviceFacts device;
  device.major = 1;  // which no build has kernels for
  EXPECT_THROW(kernel_image(device), Error);
  EXPECT_NE(why_no_kernels(device, 13000), "");
  EXPECT_NE(why_no_kernels(1, 0), "");
  ASSERT_EQ(setenv("FLOTILLA_GPU_KERNELS", folder.write("image", "machine code").c_str(), 1), 0);
  EXPECT_EQ(kernel_image(device).size(), 12u);
  EXPECT_EQ(why_no_kernels(device, 13000), "");
  EXPECT_EQ(why_no_kernels(1, 0), "");
  EXPECT_NE(kernels_description().find("image (FLOTILLA_GPU_KERNELS)"), std::string::npos);
}

}  // namespace
}  // namespace flotilla::compute::cuda
