// first_light check          every kernel against references in fp64
// first_light speed [tiny]   rates and times, one JSON object a line
// first_light groups [tiny]  collectives of all visible GPUs by NCCL, one JSON object a line
// first_light device         one JSON object
#include <cstdio>
#include <iostream>
#include <string>

#include "check.hpp"
#include "device.hpp"
#include "flotilla/base/philox.hpp"
#include "groups.hpp"
#include "speed.hpp"

namespace flotilla {
namespace {

int check() {
  using compute::cuda::Checks;
  for (const Checks* checks = Checks::first; checks; checks = checks->next) {
    std::cout << checks->file << std::endl;
    checks->run({});
  }
  return compute::cuda::Comparison::wrong > 0;
}

int device() {
  const auto& facts = first_light::target().device.facts();
  std::cout << "{\"name\": \"" << facts.name << "\", \"architecture\": \"sm_" << facts.major << facts.minor
            << "\", \"multiprocessors\": " << facts.multiprocessors << ", \"memory_bytes\": " << facts.memory.count << ", \"driver\": \""
            << gpu::driver_name(gpu::presence()) << "\", \"kernels\": \"" << compute::kernels_description() << "\"}\n";
  return 0;
}

int run(const std::string& what, bool tiny) {
  if (what == "check") return check();
  if (what == "device") return device();
  if (what == "groups") return first_light::measure_groups(tiny);
  first_light::measure_speed(tiny);
  return 0;
}

}  // namespace
}  // namespace flotilla

int main(int count, char** words) {
  try {
    return flotilla::run(count > 1 ? words[1] : "device", count > 2);
  } catch (const flotilla::Error& error) {
    std::cerr << error.what() << '\n';
    return 69;
  }
}
