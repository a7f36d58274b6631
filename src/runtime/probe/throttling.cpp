#include "throttling.hpp"

#include <algorithm>
#include <ctime>

namespace flotilla::probe {
namespace {

constexpr double far_beyond = 1.5;  // what the quota makes of it

}  // namespace

Seconds thread_time() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return Seconds{static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec)};
}

double least_throttling(int threads, double cpu_limit) { return cpu_limit > 0 ? std::max(1.0, threads / cpu_limit) : 1; }

void ThrottlingFactor::add(std::size_t round, Seconds wall, Seconds busy) {
  if (rounds_.size() <= round) rounds_.resize(round + 1);
  rounds_[round].wall += wall;
  rounds_[round].busy += busy;
}

bool ThrottlingFactor::undisturbed(const ThrottlingSum& sum) const { return !(least_ > 1) || of(sum) <= far_beyond * least_; }

bool ThrottlingFactor::counts(std::size_t round) const {
  return undisturbed(rounds_.at(round)) || std::ranges::none_of(rounds_, [&](const ThrottlingSum& sum) { return undisturbed(sum); });
}

double ThrottlingFactor::all() const {
  ThrottlingSum sum;
  for (std::size_t round = 0; round < rounds_.size(); ++round) {
    if (!counts(round)) continue;
    sum.wall += rounds_[round].wall;
    sum.busy += rounds_[round].busy;
  }
  return of(sum);
}

double ThrottlingFactor::taken_by_others() const { return least_ > 1 && all() > far_beyond * least_ ? 1 - least_ / all() : 0; }

double ThrottlingFactor::of(const ThrottlingSum& sum) const { return sum.busy.value > 0 ? std::max(least_, sum.wall / sum.busy) : least_; }

}  // namespace flotilla::probe
