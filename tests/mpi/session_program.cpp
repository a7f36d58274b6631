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
    const mpi::Session session{Seconds{5}};
    try {
      work(session, argc > 1 ? argv[1] : "");
    } catch (const Error& error) {
      mpi::abort(static_cast<int>(exit_code(error.kind())));
    }
  } catch (const Error& error) {
    std::printf("refused: %s\n", error.what());
    return static_cast<int>(exit_code(error.kind()));
  }
  return 0;
}
