#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flotilla::train {

/// How the learning rate goes down after the warm-up. With q from 0, at the first iteration after it, to 1, at the last iteration, the rate
/// is minimum + (peak - minimum) f(q), and the minimum behind the end:
enum class RateSchedule : std::uint8_t {
  cosine,        ///< f = (1 + cos(pi q)) / 2 (Loshchilov and Hutter 2017)
  linear,        ///< f = 1 - q
  constant,      ///< the peak, for ever
  inverse_sqrt,  ///< peak sqrt(warm-up / iterations done), for ever, but at least the minimum (Vaswani et al. 2017)
  wsd,           ///< warm-up, stable, decay (Hu et al. 2024): the peak until the cool-down; in it f = 1 - q, with q of the cool-down alone
  wsd_sqrt,      ///< the same with f = 1 - sqrt(q) (Hägele et al. 2024)
};
/// "cosine", "linear", "constant", "inverse-sqrt", "wsd", "wsd-sqrt".
const std::vector<std::string>& rate_schedule_names();
std::string to_string(RateSchedule);
/// Throws Error{bad_input} that lists the names.
RateSchedule parse_rate_schedule(std::string_view name);
/// Whether it ends, with a decay that is over after so many iterations.
bool decays(RateSchedule);
/// Whether it has a cool-down.
bool cools_down(RateSchedule);

/// A linear warm-up from 0 to `peak`, then the schedule. Iterations are counted from `first_step`.
struct LearningRate {
  double peak = 3e-4;
  double minimum = 3e-5;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 1;  ///< warm-up included
  RateSchedule schedule = RateSchedule::cosine;
  std::int64_t cooldown_steps = 0;  ///< the last ones of them, in wsd
  std::int64_t first_step = 0;
};
/// Of the update made in `step`, counted from 0. After the warm-up, the values are those of `transformers`' get_*_schedule functions and of
/// Megatron's for that step, with a last step of total_steps - 1.
double learning_rate(const LearningRate&, std::int64_t step);

}  // namespace flotilla::train
