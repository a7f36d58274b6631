#include "flotilla/journal/console.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

namespace flotilla::journal {
namespace {

template <class... Values>
std::string printed(const char* format, Values... values) {
  std::array<char, 256> out{};
  std::snprintf(out.data(), out.size(), format, values...);
  return out.data();
}

std::string padded(const std::string& value, std::size_t width) {
  return std::string(width > value.size() ? width - value.size() : 0, ' ') + value;
}

/// "step  120/1000": as wide for the first step as for the last.
std::string position(std::int64_t step, std::int64_t total) {
  const auto end = std::to_string(total);
  return "step " + padded(std::to_string(step), end.size()) + "/" + end;
}

}  // namespace

std::string step_line(const StepRecord& r, std::int64_t total_steps) {
  return position(r.step, total_steps) + (r.empty() ? "  loss       -  " : printed("  loss %7.4f  ", r.loss)) +
         padded(to_string(Seconds{r.step_seconds}), 7) + "  " + padded(short_number(r.tokens_per_second), 5) +
         printed(" tok/s  mfu %3.0f %%  eta ", 100 * r.share_of_peak) + clock_text(Seconds{r.eta_seconds});
}

std::string evaluation_line(const EvaluationRecord& r, std::int64_t total_steps) {
  std::string by_source;
  for (const auto& one : r.sources) by_source += (by_source.empty() ? "; " : ", ") + one.source + printed(" %.4f", one.loss);
  return position(r.step, total_steps) + printed("  evaluation loss %.4f (", r.loss) + std::to_string(r.sequences) + " sequences" +
         (by_source.empty() ? "" : " of each source") + ", " + to_string(Seconds{r.seconds}) + by_source + ")";
}

std::string checkpoint_line(const CheckpointRecord& r, std::int64_t total_steps) {
  const auto pause = r.pause_seconds ? " beside the steps, pause " + to_string(Seconds{*r.pause_seconds}) : std::string{};
  const auto where = r.in_run_directory() ? std::string{} : " on node-local storage";
  return position(r.step, total_steps) + "  checkpoint saved" + where + " (" + to_string(Bytes{r.bytes}) + ", " +
         to_string(Seconds{r.seconds}) + pause + ")";
}

bool gets_line(std::int64_t step, std::int64_t first_step, std::int64_t total_steps, std::int64_t every, bool terminal) {
  return terminal || step == first_step || step == total_steps || step % std::max<std::int64_t>(1, every) == 0;
}

Seconds remaining_time(std::span<const double> recent_step_seconds, std::int64_t remaining_steps) {
  if (recent_step_seconds.empty() || remaining_steps <= 0) return {};
  std::vector<double> samples{recent_step_seconds.begin(), recent_step_seconds.end()};
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return {*middle * static_cast<double>(remaining_steps)};
}

std::string clock_text(Seconds duration) {
  constexpr double longest = 1e9;  // thirty years: nobody waits, and it fits
  if (!(duration.value >= 0 && duration.value < longest)) return "-";
  const auto seconds = std::llround(duration.value);
  const auto days = seconds / 86400, hours = seconds / 3600 % 24, minutes = seconds / 60 % 60;
  if (days > 0) return printed("%lldd %02lldh", days, hours);
  return printed("%lld:%02lld:%02lld", hours, minutes, seconds % 60);
}

std::string short_number(double value) {
  if (!std::isfinite(value)) return "-";
  constexpr std::array prefixes{"", "k", "M", "G", "T", "P"};
  std::size_t prefix = 0;
  // What rounds to 1000 takes the next prefix.
  for (; std::abs(value) >= 999.5 && prefix + 1 < prefixes.size(); ++prefix) value /= 1000;
  const double size = std::abs(value);
  const int decimals = prefix == 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return printed("%.*f%s", decimals, value, prefixes[prefix]);
}

}  // namespace flotilla::journal
