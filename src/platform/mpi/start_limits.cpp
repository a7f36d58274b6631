#include "start_limits.hpp"

#include <sys/resource.h>

#include <array>
#include <cstdlib>

#include "flotilla/base/text.hpp"
#include "flotilla/mpi/session.hpp"

namespace flotilla::mpi {
namespace {

struct Limit {
  decltype(RLIMIT_NOFILE) resource;
  const char* name;
  const char* command;
  rlim_t needed;  // less has never sufficed for a process alone (Open MPI 4.1.4); more ranks need more
};
constexpr std::array limits{Limit{RLIMIT_NOFILE, "open files", "ulimit -n", 25},
                            Limit{RLIMIT_FSIZE, "bytes in a file", "ulimit -f", rlim_t{4} << 20},
                            Limit{RLIMIT_STACK, "bytes of stack", "ulimit -s", rlim_t{201} << 10}};

constexpr const char* remote_launch = "OMPI_MCA_plm";

}  // namespace

std::string why_too_limited() {
  for (const auto& limit : limits) {
    rlimit is{};
    if (::getrlimit(limit.resource, &is) == 0 && is.rlim_cur != RLIM_INFINITY && is.rlim_cur < limit.needed)
      return text("the limit of ", limit.name, " is ", is.rlim_cur, " (", limit.command, "); MPI needs ", limit.needed, " at the least");
  }
  return {};
}

LoneStart::LoneStart() {
  const auto of_environment = [](const char* name) -> const char* { return std::getenv(name); };
  if (launched_processes(of_environment) > 1) return;
  for (const char* const decided : {"OMPI_COMM_WORLD_SIZE", remote_launch})
    if (of_environment(decided) != nullptr) return;
  set_ = ::setenv(remote_launch, "isolated", 1) == 0;
}

LoneStart::~LoneStart() {
  if (set_) ::unsetenv(remote_launch);
}

}  // namespace flotilla::mpi
