#include "schedules.hpp"

#include <algorithm>
#include <array>

#include "flotilla/base/error.hpp"
#include "index.hpp"
#include "list_scheduler.hpp"

namespace flotilla::schedule {

std::vector<std::unique_ptr<PassRule>> Schedule::rules(const std::vector<Fraction>&) const { return {}; }
bool Schedule::splits(int) const { return false; }
int Schedule::most_deferred(int) const { return 0; }
Fraction Schedule::deferrable(const plan::Plan&, int) const { return {}; }

const Schedule& schedule_of(plan::ScheduleKind kind) {
  switch (kind) {
    case plan::ScheduleKind::gpipe: return gpipe();
    case plan::ScheduleKind::one_f_one_b: return one_f_one_b();
    case plan::ScheduleKind::interleaved: return interleaved();
    case plan::ScheduleKind::zero_bubble: return zero_bubble();
  }
  FLOTILLA_ASSERT(false, "schedule ", static_cast<int>(kind));
  return one_f_one_b();
}

std::span<const plan::ScheduleKind> schedule_kinds() {
  using enum plan::ScheduleKind;
  static constexpr std::array all{one_f_one_b, gpipe, interleaved, zero_bubble};
  return all;
}

plan::ScheduleKind usual_schedule() { return schedule_kinds().front(); }

const Schedule& schedule_of(const plan::Plan& plan) {
  const Schedule& named = schedule_of(plan.schedule);
  return named.interleaves() && plan.chunks == 1 ? one_f_one_b() : named;
}

std::vector<std::int64_t> under_way(const std::vector<std::int64_t>& grains) {
  std::vector<std::int64_t> from(grains.size());
  std::int64_t sum = 0, next = 0;
  for (std::size_t s = grains.size(); s-- > 0;) {
    // A later stage that takes more at once than this one hands on waits for the rest of it.
    sum += s + 1 < grains.size() ? grains[s] + std::max<std::int64_t>(0, next - grains[s]) : grains[s];
    from[s] = sum;
    next = grains[s];
  }
  return from;
}

int in_flight_of(std::int64_t under_way, int microbatches) {
  const std::int64_t covering = (under_way * microbatches + whole_batch - 1) / whole_batch;
  return static_cast<int>(std::clamp<std::int64_t>(covering, 1, std::max(1, microbatches)));
}

}  // namespace flotilla::schedule
