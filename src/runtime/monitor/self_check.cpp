#include "flotilla/monitor/self_check.hpp"

#include <algorithm>
#include <cmath>

namespace flotilla::monitor {
namespace {

constexpr int to_be_sure = 2;  // windows in a row
constexpr int first_windows = 3;
constexpr double waits_for_late = 4;  // in an iteration, at most: a rank that is late by a second costs a link so many

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
  const auto groups = group_times(windows);
  measure_links(windows, groups);
  const auto note = [&](std::optional<Slowness> finding) {
    if (finding) news.push_back(*finding);
  };
  for (std::size_t r = 0; r < windows.size(); ++r) note(judge_device(windows[r], r, usual));
  for (std::size_t r = 0; r < windows.size(); ++r) note(judge_link(windows, r));
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (groups[g]) note(judge_group(windows, static_cast<int>(g), *groups[g]));
  return news;
}

std::optional<Slowness> SelfCheck::judge_device(const RankWindow& window, std::size_t rank, double usual) {
  const double expected = usual * forecast_busy_[rank];
  if (expected <= 0) return std::nullopt;
  Slowness device;
  device.rank = Rank{static_cast<int>(rank)};
  device.factor = window.busy / expected;
  device.cost = {std::max(window.busy - expected, 0.0)};
  return marks_[rank].device.step(device, slow, fast);
}

// Who comes late sends and receives late: of the wire between such ranks nothing is known. Here the forecast itself is the measure.
bool SelfCheck::suspect(std::span<const RankWindow> windows, Rank rank, double more) const {
  if (!rank.valid() || rank.index() >= windows.size()) return true;
  const double busy = windows[rank.index()].busy, forecast = forecast_busy_[rank.index()];
  return !(busy < fast * forecast) && (busy - forecast) * waits_for_late > more;
}

std::optional<Slowness> SelfCheck::judge_link(std::span<const RankWindow> windows, std::size_t rank) {
  const auto& w = windows[rank];
  auto& mark = marks_[rank].link;
  Slowness link;
  link.rank = Rank{static_cast<int>(rank)};
  link.peer = Rank{w.peer};
  const double more = w.link - usual_link_ * w.link_forecast;
  const bool counts = w.peer >= 0 && w.link_forecast > 0 && more > least_link_cost * w.iteration && !suspect(windows, link.rank, more) &&
                      !suspect(windows, link.peer, more);
  link.factor = counts ? factor_of(w.link, w.link_forecast) : 1;
  link.cost = {counts ? more : 0};
  if (mark.told && !counts) link.peer = mark.last.peer;
  return mark.step(link, slow_link, fast_link);
}

std::vector<std::optional<GroupTime>> SelfCheck::group_times(std::span<const RankWindow> windows) const {
  std::vector<std::optional<GroupTime>> least(members_.size());
  std::vector<int> heard(members_.size(), 0);
  for (const auto& window : windows)
    for (const auto& time : window.groups) {
      if (time.group < 0 || static_cast<std::size_t>(time.group) >= members_.size() || !(time.forecast > 0)) continue;
      auto& best = least[static_cast<std::size_t>(time.group)];
      if (!best || time.measured < best->measured) best = time;
      ++heard[static_cast<std::size_t>(time.group)];
    }
  for (std::size_t g = 0; g < least.size(); ++g)
    if (heard[g] < 2 || members_[g].empty()) least[g].reset();
  return least;
}

void SelfCheck::measure_links(std::span<const RankWindow> windows, const std::vector<std::optional<GroupTime>>& groups) {
  if (windows_++ >= first_windows) return;
  std::vector<double> ratios;
  for (const auto& w : windows)
    if (w.peer >= 0 && w.link_forecast > 0) ratios.push_back(w.link / w.link_forecast);
  for (const auto& group : groups)
    if (group) ratios.push_back(group->measured / group->forecast);
  if (ratios.empty()) return;
  const double best = std::max(1.0, *std::ranges::min_element(ratios));
  usual_link_ = windows_ == 1 ? best : std::min(usual_link_, best);
}

std::optional<Slowness> SelfCheck::judge_group(std::span<const RankWindow> windows, int group, const GroupTime& least) {
  const auto& members = members_[static_cast<std::size_t>(group)];
  Slowness slowness;
  slowness.rank = members.front();
  slowness.group = group;
  slowness.members = members;
  const double more = least.measured - usual_link_ * least.forecast;
  const bool late = std::ranges::any_of(members, [&](Rank member) { return suspect(windows, member, more); });
  const bool counts = !late && more > least_link_cost * windows[members.front().index()].iteration;
  slowness.factor = counts ? factor_of(least.measured, least.forecast) : 1;
  slowness.cost = {counts ? more : 0};
  const auto news = group_marks_[group].step(slowness, slow_link, fast_link);
  if (news) links_.erase(group);
  return news;
}

std::vector<Slowness> SelfCheck::slow_now() const {
  std::vector<Slowness> all;
  for (const auto& marks : marks_)
    for (const auto* mark : {&marks.device, &marks.link})
      if (mark->told) all.push_back(mark->last);
  for (const auto& [group, mark] : group_marks_) {
    if (!mark.told) continue;
    all.push_back(mark.last);
    if (const auto known = links_.find(group); known != links_.end()) all.back().links = known->second;
  }
  return all;
}

}  // namespace flotilla::monitor
