// What fail_world_test runs under mpirun: a job as `main` is built, that ends in the way its first argument says; the second is a folder in
// which the ranks can see how far the others are.
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/comm/fail_world.hpp"
#include "flotilla/mpi/session.hpp"
#include "flotilla/signals/stop_signals.hpp"
#include "support/waiting.hpp"

namespace {

using namespace flotilla;

constexpr Seconds patience = flotilla::tests::hang_bound();

/// A rank is missed only where one falls silent on purpose, and then after longer than a busy machine keeps another from running.
comm::WatchOptions watch_options(const std::string& how) { return {{0.05}, how == "stop" ? Seconds{4} : patience}; }

std::filesystem::path abort_waits_for;  // a file; empty: for nothing

void step(const comm::World& world, const std::string& how) {
  const bool last = world.rank().value == world.size() - 1;
  if (how == "throw" && last) throw Error{ErrorKind::bad_input, "tokens.bin: cut short"};
  if (how == "bug" && last) throw std::runtime_error{"not ours"};
  if (how == "stop" && last) kill(getpid(), SIGSTOP);
  if (how == "kill" && last) kill(getpid(), SIGKILL);
  if (how == "agree") comm::agree(world, {!last, ErrorKind::no_plan, "nothing fits"}, patience);
  if (how == "fine") return;
  mpi::barrier(world.messages(), patience);  // everybody else waits here for the one that does not come
}

/// Until a signal reaches any rank; every rank then ends with the code that asks for a requeue.
int wait_for_stop(const comm::World& world, comm::Watch& watch) {
  const signals::StopSignals signals;
  if (world.rank().value == world.size() - 1) raise(SIGUSR1);
  while (!watch.stop_requested()) {
    if (const auto signal = signals.received()) watch.request_stop(signals::signal_name(signal->number));
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  const auto stop = *watch.stop_requested();
  std::printf("rank %d stops: %s at rank %d\n", world.rank().value, stop.reason.c_str(), stop.origin.value);
  watch.close(patience);
  return static_cast<int>(ExitCode::requeue);
}

int run(const mpi::Session& session, const std::string& how, const std::filesystem::path& folder) {
  const comm::World world{session.world(), patience};
  const auto outcome_of = [&](int rank) { return folder / std::to_string(rank); };
  if (how == "throw" && world.rank().value == world.size() - 1) abort_waits_for = outcome_of(0);
  const auto write_outcome = [&](const comm::LastWords& words) {
    std::printf("outcome of rank %d: %d %s\n", world.rank().value, static_cast<int>(words.code), words.line.c_str());
    std::ofstream{outcome_of(world.rank().value)} << "said";
    if (how == "throw") throw std::runtime_error{"a full disk"};  // must not keep the job alive
  };
  comm::Watch watch{world, watch_options(how), comm::end_world_on_trouble(world, write_outcome)};
  try {
    if (how == "signal") return wait_for_stop(world, watch);
    step(world, how);
    watch.close(patience);
  } catch (const comm::AgreedError& error) {
    if (world.rank() == Rank{0}) std::printf("agreed: %s\n", error.what());
    watch.close(patience);
    return static_cast<int>(exit_code(error.kind()));
  } catch (...) {
    comm::fail_world(&world, &watch, comm::last_words(), write_outcome);
  }
  return 0;
}

}  // namespace

/// In place of the library's: an abort ends the others wherever they are, and how soon they hear of it is the machine's matter. Where the
/// test looks at what they say to the word that went out before, it waits for that.
extern "C" int MPI_Abort(MPI_Comm communicator, int code) {
  const Seconds end = now() + patience;
  while (!abort_waits_for.empty() && !std::filesystem::exists(abort_waits_for) && now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  return PMPI_Abort(communicator, code);
}

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // what was said counts, though the launcher end this rank
  mpi::Session session;
  return run(session, argv[1], argv[2]);
}
