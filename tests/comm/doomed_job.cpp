// What fail_world_test runs under mpirun: a job as `main` is built, that ends in the way its first argument says.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

#include "flotilla/base/error.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/comm/fail_world.hpp"
#include "flotilla/mpi/session.hpp"
#include "flotilla/signals/stop_signals.hpp"

namespace {

using namespace flotilla;

constexpr comm::WatchOptions watch_options{{0.05}, {1.0}};

void step(const comm::World& world, const std::string& how) {
  const bool last = world.rank().value == world.size() - 1;
  if (how == "throw" && last) throw Error{ErrorKind::bad_input, "tokens.bin: cut short"};
  if (how == "bug" && last) throw std::runtime_error{"not ours"};
  if (how == "stop" && last) kill(getpid(), SIGSTOP);
  if (how == "kill" && last) kill(getpid(), SIGKILL);
  if (how == "agree") comm::agree(world, {!last, ErrorKind::no_plan, "nothing fits"}, {20});
  if (how == "fine") return;
  mpi::barrier(world.messages(), {30});  // everybody else waits here for the one that does not come
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
  watch.close({20});
  return static_cast<int>(ExitCode::requeue);
}

int run(const mpi::Session& session, const std::string& how) {
  const comm::World world{session.world(), {20}};
  const auto write_outcome = [&](const comm::LastWords& words) {
    std::printf("outcome of rank %d: %d %s\n", world.rank().value, static_cast<int>(words.code), words.line.c_str());
    std::fflush(stdout);
    if (how == "throw") throw std::runtime_error{"a full disk"};  // must not keep the job alive
  };
  comm::Watch watch{world, watch_options, comm::end_world_on_trouble(world, write_outcome)};
  try {
    if (how == "signal") return wait_for_stop(world, watch);
    step(world, how);
    watch.close({20});
  } catch (const comm::AgreedError& error) {
    if (world.rank() == Rank{0}) std::printf("agreed: %s\n", error.what());
    watch.close({20});
    return static_cast<int>(exit_code(error.kind()));
  } catch (...) {
    comm::fail_world(&world, &watch, comm::last_words(), write_outcome);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  mpi::Session session;
  return run(session, argc > 1 ? argv[1] : "fine");
}
