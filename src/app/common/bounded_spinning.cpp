#include "app/common/bounded_spinning.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace flotilla::app {
namespace {

// Looks at the flag that a thread waits for, about 50 ns each: 10 us, longer than the serial code between two parallel regions takes and
// far shorter than a time slice of the system. docs/measurements/compute.md.
constexpr const char* spins = "200";

}  // namespace

void bound_spinning(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  std::error_code unknown;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (unknown || ::setenv("GOMP_SPINCOUNT", spins, 0) != 0) return;
  ::execv(program.c_str(), argv);
}

}  // namespace flotilla::app
