// checkpoint_saver RUN RANK STEPS PHASE MICROSECONDS: loads the newest checkpoint, checks it, and saves step after step; RANK kills itself
// without warning some microseconds into a phase of the last of STEPS more steps. RUN/acknowledged holds the last step that save()
// returned.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <thread>

#include "checkpoint/holding.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/mpi/session.hpp"
#include "support/waiting.hpp"

namespace flotilla::checkpoint {
namespace {

constexpr Seconds deadline = flotilla::tests::hang_bound();

struct Kill {
  int rank;
  std::int64_t step;
  SavePhase phase;
  std::chrono::microseconds delay;
};

void kill_later(std::chrono::microseconds delay) {
  std::thread{[delay] {
    std::this_thread::sleep_for(delay);
    ::kill(::getpid(), SIGKILL);
  }}.detach();
}

/// Renamed into place: a kill between the opening of the file and its writing must not leave it empty.
void acknowledge(const std::filesystem::path& run, std::int64_t step) {
  std::ofstream{run / "acknowledged.new"} << step << "\n";
  std::filesystem::rename(run / "acknowledged.new", run / "acknowledged");
}

void save(const comm::World& world, const std::filesystem::path& run, Holding& holding, std::int64_t step, const Kill& kill) {
  holding.fill(static_cast<std::uint64_t>(step));
  Manifest manifest;
  manifest.step = step;
  SaveOptions options{.keep = 2, .deadline = deadline, .on_phase = {}};
  options.on_phase = [&](SavePhase phase) {
    if (world.rank().value == kill.rank && step == kill.step && phase == kill.phase) kill_later(kill.delay);
  };
  checkpoint::save(world, run, holding.state(), manifest, options);
  if (world.rank().value == 0) acknowledge(run, step);
}

int run(char** arguments) {
  const mpi::Session session;
  const comm::World world{session.world(), deadline};
  const std::filesystem::path directory = arguments[1];
  std::mt19937 random{static_cast<unsigned>(world.size())};
  Holding holding{random_plan(random, odd_model(), world.size()), world.rank()};
  std::int64_t step = 0;
  if (latest(directory)) {
    step = load_newest_good(world, directory, holding.state(), {deadline}).manifest.step;
    FLOTILLA_REQUIRE(holding.wrong(static_cast<std::uint64_t>(step)) == 0, ErrorKind::internal, "step ", step, " was loaded wrong");
  }
  const Kill kill{std::atoi(arguments[2]), step + std::atoi(arguments[3]), static_cast<SavePhase>(std::atoi(arguments[4])),
                  std::chrono::microseconds{std::atoi(arguments[5])}};
  for (;;) save(world, directory, holding, ++step, kill);
}

}  // namespace
}  // namespace flotilla::checkpoint

int main(int count, char** arguments) {
  if (count != 6) return 64;
  try {
    return flotilla::checkpoint::run(arguments);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    flotilla::mpi::abort(1);
  }
}
