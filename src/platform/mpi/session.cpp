#include "flotilla/mpi/session.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>

#include "call_deadline.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "mpi_try.hpp"
#include "native.hpp"
#include "session_folder.hpp"
#include "start_limits.hpp"

namespace flotilla::mpi {
namespace {

constexpr Seconds duplicate_deadline{60.0};

/// Why this MPI will not do, in the process that has just started it; empty when it does.
std::string why_unfit(int thread_level) {
  if (thread_level < MPI_THREAD_MULTIPLE)
    return text("MPI grants thread level ", thread_level, " and MPI_THREAD_MULTIPLE is needed; use an MPI library built with it (",
                library_version(), ")");
  int size = 0;
  MPI_TRY(MPI_Comm_size(MPI_COMM_WORLD, &size));
  return why_not_one_world(size, [](const char* name) { return std::getenv(name); });
}

/// MPI starts and ends with all ranks and waits for them for ever: where one is stopped, was never started or hangs, this rank ends, and
/// its launcher the job.
CallDeadline end_if_late(Seconds deadline, const char* what) {
  return {deadline, [deadline, what] {
            log::error("MPI has not ", what, " in ", deadline, ": a rank is stopped, has ended, or was not started");
            ::_exit(static_cast<int>(ExitCode::lost_peer));
          }};
}

void initialize(int& thread_level, Seconds start_deadline) {
  const auto why = why_too_limited();
  FLOTILLA_REQUIRE(why.empty(), ErrorKind::unavailable, why);
  const LoneStart alone;
  const auto deadline = end_if_late(start_deadline, "started");
  MPI_TRY(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &thread_level));
}

/// True when this call started MPI.
bool start(Seconds start_deadline) {
  int initialized = 0;
  int thread_level = MPI_THREAD_SINGLE;
  MPI_TRY(MPI_Initialized(&initialized));
  if (initialized)
    MPI_TRY(MPI_Query_thread(&thread_level));
  else
    initialize(thread_level, start_deadline);
  MPI_TRY(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  MPI_TRY(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  if (const std::string why = why_unfit(thread_level); !why.empty()) {
    if (!initialized) MPI_Finalize();
    throw Error{ErrorKind::unavailable, why};
  }
  return !initialized;
}

Communicator duplicate_world() {
  auto all = std::make_unique<Communicator::Native>();
  all->handle.reset(MPI_COMM_WORLD);
  return Communicator{std::move(all)}.duplicate(duplicate_deadline);
}

}  // namespace

Session::Session(Seconds end_deadline, Seconds start_deadline)
    : folder_{std::make_unique<SessionFolder>()},
      owns_{start(start_deadline)},
      exceptions_{std::uncaught_exceptions()},
      end_deadline_{end_deadline},
      world_{duplicate_world()} {}

Session::~Session() {
  if (!owns_ || !running() || std::uncaught_exceptions() > exceptions_) return;
  const auto deadline = end_if_late(end_deadline_, "ended");
  MPI_Finalize();
}

std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> words{};
  int length = 0;
  MPI_Get_library_version(words.data(), &length);
  std::string line{words.data()};
  line.erase(std::min(line.find_first_of("\r\n"), line.size()));
  return line;
}

std::string host_name() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  MPI_TRY(MPI_Get_processor_name(name.data(), &length));
  return {name.data(), static_cast<std::size_t>(length)};
}

bool running() noexcept {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized && !finalized;
}

void abort(int exit_code) noexcept {
  if (running()) MPI_Abort(MPI_COMM_WORLD, exit_code);
  ::_exit(exit_code);
}

}  // namespace flotilla::mpi
