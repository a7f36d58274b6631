#pragma once
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "flotilla/comm/world.hpp"
#include "native.hpp"

/// For tests of what happens without a rank: so that a machine which is busy with other things makes no second one miss.
namespace flotilla::comm {

inline constexpr std::chrono::milliseconds look_again{1};

/// At rank 0, before it comes to an agreement without `silent`: waits until the words of all others lie there, however late they are. Its
/// deadline then counts for the silent one alone. Every rank calls it before the agreement.
inline void await_words_of_all_but(const World& world, int silent) {
  const int tag = (world.next_agreement() + 1) & 0x3fff;  // as the rendezvous counts
  if (world.rank() != Rank{0}) return;
  for (int r = 1; r < world.size(); ++r)
    for (int there = r == silent ? 1 : 0; there == 0;) {
      MPI_Iprobe(r, tag, mpi::native(world.control()), &there, MPI_STATUS_IGNORE);
      if (there == 0) std::this_thread::sleep_for(look_again);
    }
}

/// Whether a process of this host is stopped by a signal.
inline bool is_stopped(int pid) {
  std::string line;
  std::getline(std::ifstream{"/proc/" + std::to_string(pid) + "/stat"}, line);
  const auto name_end = line.rfind(") ");
  return name_end != std::string::npos && line[name_end + 2] == 'T';
}

/// Rank `stopped` of this host is stopped (as by a debugger, a dying node or swapping) while the others work, and goes on when the last of
/// them has finished. All ranks call it and leave it together.
template <class Work>
void while_stopped(int stopped, const Work& work) {
  int me = 0, pid = getpid();
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm others = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, me == stopped ? 1 : 0, me, &others);
  MPI_Bcast(&pid, 1, MPI_INT, stopped, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);  // nobody needs the stopped one for this any more
  if (me == stopped) {
    kill(pid, SIGSTOP);
  } else {
    while (!is_stopped(pid)) std::this_thread::sleep_for(look_again);
    work();
    MPI_Barrier(others);
    int first = 0;
    MPI_Comm_rank(others, &first);
    if (first == 0) kill(pid, SIGCONT);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Comm_free(&others);
}

}  // namespace flotilla::comm
