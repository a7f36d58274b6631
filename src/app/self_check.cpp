#include "app/self_check.hpp"

#include <algorithm>
#include <cmath>

namespace flotilla::app {
namespace {

constexpr int to_be_sure = 2;  // windows in a row
constexpr double window_seconds = 2;

double lower_median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::optional<Slowness> SelfCheck::Mark::step(Slowness now, double slow, double fast) {
  over_limit = now.factor >= slow ? over_limit + 1 : 0;
  under_limit = now.factor < fast ? under_limit + 1 : 0;
  now.windows = over_limit;
  last = now;
  if (!told && over_limit >= to_be_sure) {
    told = true;
    return now;
  }
  if (told && under_limit >= to_be_sure) {
    told = false;
    now.over = true;
    return now;
  }
  return std::nullopt;
}

std::vector<Slowness> SelfCheck::judge(std::span<const RankWindow> windows) {
  std::vector<Slowness> news;
  if (windows.size() != forecast_busy_.size()) return news;
  std::vector<double> ratios;
  for (std::size_t r = 0; r < windows.size(); ++r)
    if (forecast_busy_[r] > 0) ratios.push_back(windows[r].busy / forecast_busy_[r]);
  if (ratios.empty()) return news;
  if (!first_ratio_) first_ratio_ = ratios.front();
  const double usual = ratios.size() == 1 ? *first_ratio_ : lower_median(ratios);
  if (!(usual > 0)) return news;
  const auto note = [&](std::optional<Slowness> finding) {
    if (finding) news.push_back(*finding);
  };
  for (std::size_t r = 0; r < windows.size(); ++r) {
    const double expected = usual * forecast_busy_[r];
    if (expected <= 0) continue;
    Slowness device;
    device.rank = Rank{static_cast<int>(r)};
    device.factor = windows[r].busy / expected;
    device.cost = {windows[r].busy - expected};
    note(marks_[r].device.step(device, slow, fast));
  }
  // Who comes late sends and receives late: of the wire between such ranks nothing is known. Here the forecast itself is the measure.
  const auto suspect = [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return rank < 0 || r >= windows.size() || !(windows[r].busy < fast * forecast_busy_[r]);
  };
  for (std::size_t r = 0; r < windows.size(); ++r) {
    const auto& w = windows[r];
    Slowness link;
    link.rank = Rank{static_cast<int>(r)};
    link.peer = Rank{w.peer};
    const bool counts = w.peer >= 0 && w.link_forecast > 0 && w.link - w.link_forecast > least_link_cost * w.iteration &&
                        !suspect(static_cast<int>(r)) && !suspect(w.peer);
    link.factor = counts ? w.link / w.link_forecast : 1;
    link.cost = {counts ? w.link - w.link_forecast : 0};
    if (marks_[r].link.told && !counts) link.peer = marks_[r].link.last.peer;
    note(marks_[r].link.step(link, slow_link, fast_link));
  }
  return news;
}

std::vector<Slowness> SelfCheck::slow_now() const {
  std::vector<Slowness> all;
  for (const auto& marks : marks_)
    for (const auto* mark : {&marks.device, &marks.link})
      if (mark->told) all.push_back(mark->last);
  return all;
}

int window_length(double iteration_seconds) {
  if (!(iteration_seconds > 0)) return 5;
  return static_cast<int>(std::clamp(std::ceil(window_seconds / iteration_seconds), 5.0, 1000.0));
}

}  // namespace flotilla::app
