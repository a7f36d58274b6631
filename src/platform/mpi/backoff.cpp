#include "flotilla/mpi/backoff.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace flotilla::mpi {
namespace {

constexpr int yields = 64;             // a neighbour on the same core may be about to answer
constexpr int shortest_sleep_us = 10;  // the timer slack of Linux adds 50
constexpr int longest_sleep_us = 200;

}  // namespace

void Backoff::pause() noexcept {
  if (rounds_ < yields) {
    std::this_thread::yield();
  } else {
    const int sleep = std::min(shortest_sleep_us * (rounds_ - yields + 1), longest_sleep_us);
    std::this_thread::sleep_for(std::chrono::microseconds{sleep});
  }
  rounds_ = std::min(rounds_ + 1, yields + longest_sleep_us / shortest_sleep_us);
}

}  // namespace flotilla::mpi
