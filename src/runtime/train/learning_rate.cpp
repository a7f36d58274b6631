#include "flotilla/train/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"

namespace flotilla::train {
namespace {

/// 0 up to `begin`, 1 from `end` on, which is behind it.
double part_between(std::int64_t step, std::int64_t begin, std::int64_t end) {
  const auto steps = std::max<std::int64_t>(1, end - begin);
  return std::clamp(static_cast<double>(step - begin) / static_cast<double>(steps), 0.0, 1.0);
}

/// What is left of the way from peak to minimum.
double factor(const LearningRate& rate, std::int64_t step) {
  const auto last = rate.total_steps - 1;
  const double whole = part_between(step, rate.warmup_steps, last);
  const double cooldown = part_between(step, last - rate.cooldown_steps, last);
  switch (rate.schedule) {
    case RateSchedule::cosine: return 0.5 * (1 + std::cos(std::numbers::pi * whole));
    case RateSchedule::linear: return 1 - whole;
    case RateSchedule::wsd: return 1 - cooldown;
    case RateSchedule::wsd_sqrt: return 1 - std::sqrt(cooldown);
    case RateSchedule::constant:
    case RateSchedule::inverse_sqrt: break;
  }
  return 1;
}

}  // namespace

const std::vector<std::string>& rate_schedule_names() {
  static const std::vector<std::string> names{"cosine", "linear", "constant", "inverse-sqrt", "wsd", "wsd-sqrt"};
  return names;
}

std::string to_string(RateSchedule schedule) { return rate_schedule_names().at(static_cast<std::size_t>(schedule)); }

RateSchedule parse_rate_schedule(std::string_view name) {
  const auto& names = rate_schedule_names();
  const auto found = std::ranges::find(names, name);
  std::string all;
  for (const auto& one : names) all += (all.empty() ? "" : ", ") + one;
  FLOTILLA_REQUIRE(found != names.end(), ErrorKind::bad_input, "expected a learning-rate schedule, one of ", all, ", got ",
                   in_quotes(name));
  return static_cast<RateSchedule>(found - names.begin());
}

bool decays(RateSchedule schedule) { return schedule != RateSchedule::constant && schedule != RateSchedule::inverse_sqrt; }
bool cools_down(RateSchedule schedule) { return schedule == RateSchedule::wsd || schedule == RateSchedule::wsd_sqrt; }

double learning_rate(const LearningRate& rate, std::int64_t step) {
  step -= rate.first_step;
  if (step < rate.warmup_steps) return rate.peak * static_cast<double>(step + 1) / static_cast<double>(rate.warmup_steps);
  if (rate.schedule == RateSchedule::inverse_sqrt) {
    const auto scale = std::max<std::int64_t>(1, rate.warmup_steps);
    return std::max(rate.minimum, rate.peak * std::sqrt(static_cast<double>(scale) / static_cast<double>(std::max(scale, step))));
  }
  return rate.minimum + (rate.peak - rate.minimum) * factor(rate, step);
}

}  // namespace flotilla::train
