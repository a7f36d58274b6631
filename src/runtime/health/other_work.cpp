#include "flotilla/health/other_work.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <utility>

namespace flotilla::health {
namespace {

double seconds_of(const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec); }

double own_processor_time() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return seconds_of(use.ru_utime) + seconds_of(use.ru_stime);
}

}  // namespace

OtherWork::OtherWork(std::filesystem::path proc) : proc_{std::move(proc)}, begin_{read()} {}

// proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal, in ticks since boot. Guests' time is part of user's.
std::optional<OtherWork::Reading> OtherWork::read() const {
  std::ifstream stat{proc_ / "stat"};
  std::string name;
  std::array<double, 8> ticks{};
  stat >> name;
  for (auto& value : ticks) stat >> value;
  if (!stat || name != "cpu") return std::nullopt;
  constexpr std::size_t idle = 3, waiting = 4;
  Reading reading;
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    reading.all += ticks[i];
    if (i != idle && i != waiting) reading.busy += ticks[i];
  }
  const auto tick = static_cast<double>(sysconf(_SC_CLK_TCK));
  return Reading{reading.busy / tick, reading.all / tick, own_processor_time()};
}

std::optional<double> OtherWork::share() const {
  const auto end = read();
  if (!begin_ || !end || end->all <= begin_->all) return std::nullopt;
  const double others = (end->busy - begin_->busy) - (end->own - begin_->own);
  return std::clamp(others / (end->all - begin_->all), 0.0, 1.0);
}

void OtherWork::leave_out(const std::function<void()>& body) {
  const auto before = read();
  body();
  const auto after = read();
  if (!begin_ || !before || !after) return;
  begin_->busy += after->busy - before->busy;
  begin_->all += after->all - before->all;
  begin_->own += after->own - before->own;
}

}  // namespace flotilla::health
