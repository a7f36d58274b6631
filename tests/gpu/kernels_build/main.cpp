// say COMPUTE_CAPABILITY DRIVER_VERSION: what this build has, and why a device has none of it.
#include <cstdlib>
#include <iostream>

#include "flotilla/compute/kernel_image.hpp"

int main(int, char** words) {
  flotilla::gpu::DeviceFacts device;
  device.major = std::atoi(words[1]) / 10;
  device.minor = std::atoi(words[1]) % 10;
  std::cout << flotilla::compute::kernels_description() << '\n' << flotilla::compute::why_no_kernels(device, std::atoi(words[2])) << '\n';
}
