// What session_test runs: a session, a line per rank, and on request a bad end. Exit code as main would give it.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "flotilla/base/error.hpp"
#include "flotilla/mpi/session.hpp"

namespace {

void work(const flotilla::mpi::Session& session, const char* how) {
  const auto& world = session.world();
  std::printf("rank %d of %d\n", world.rank(), world.size());
  std::fflush(stdout);
  const bool last = world.rank() == world.size() - 1;
  if (std::strcmp(how, "throw") == 0 && last) throw flotilla::Error{flotilla::ErrorKind::no_plan, "on purpose"};
  flotilla::mpi::barrier(world, {120});
  if (std::strcmp(how, "stop") == 0 && last) std::raise(SIGSTOP);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace flotilla;
  try {
    const char* const how = argc > 1 ? argv[1] : "";
    const bool at_start = std::strcmp(how, "stop-at-start") == 0;
    if (const char* rank = std::getenv("OMPI_COMM_WORLD_RANK"); at_start && rank != nullptr && std::strcmp(rank, "1") == 0)
      std::raise(SIGSTOP);
    const mpi::Session session{Seconds{5}, Seconds{at_start ? 5.0 : 120.0}};
    try {
      work(session, how);
    } catch (const Error& error) {
      mpi::abort(static_cast<int>(exit_code(error.kind())));
    }
  } catch (const Error& error) {
    std::printf("refused: %s\n", error.what());
    return static_cast<int>(exit_code(error.kind()));
  }
  return 0;
}
