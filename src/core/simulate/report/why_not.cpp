#include "flotilla/simulate/why_not.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "flotilla/base/text.hpp"

namespace flotilla::simulate {
namespace {

/// Of a device's memory, or of its host's.
struct Need {
  Bytes needed, limit;
  bool of_host = false;
  Bytes over() const { return needed - limit; }
};

/// That which is nearer to its limit, or further over it; nothing where no limit is known.
std::optional<Need> tighter_need(const MemoryForecast& memory, std::optional<Bytes> limit) {
  std::optional<Need> need;
  if (limit) need = Need{memory.peak(), *limit};
  const Need host{memory.on_host.total(), memory.on_host.limit, true};
  return host.limit.count > 0 && (!need || host.over() > need->over()) ? host : need;
}

Shortage shortage_of(const ReportRow& row) {
  Shortage found;
  found.rank = row.first;
  found.ranks = row.ranks;
  found.stage = row.stages.front();
  found.device_type = row.device_type;
  found.host = row.host;
  const auto need = tighter_need(row.memory, row.limit).value();
  found.needed = need.needed;
  found.limit = need.limit;
  found.of_host = need.of_host;
  found.memory = row.memory;
  return found;
}

std::string remedy_in_words(const Remedy& remedy) {
  const double percent = std::round(1000 * remedy.slowdown) / 10;
  std::string words = text(remedy.change, ": fits with ", remedy.spare, " to spare");
  if (remedy.more_devices > 0) words += text(", takes ", remedy.more_devices, " more devices");
  if (percent == 0) return words + ", no slower";
  return words + text(", ", std::abs(percent), percent > 0 ? " % slower" : " % faster");
}

}  // namespace

std::optional<Shortage> tightest(const Forecast& forecast, const MemoryLimit& limit_of) {
  std::optional<Shortage> found;
  for (const auto& kind : forecast.kinds)
    for (Rank rank : kind.ranks) {
      const auto need = tighter_need(kind.memory, limit_of(rank));
      if (!need || (found && need->over() <= found->needed - found->limit)) continue;
      found =
          Shortage{rank, static_cast<int>(kind.ranks.size()), kind.stage, "", "", need->needed, need->limit, kind.memory, need->of_host};
    }
  return found;
}

std::vector<std::pair<std::string, Bytes>> contributors(const MemoryForecast& memory) {
  std::vector<std::pair<std::string, Bytes>> parts;
  for (std::size_t c = 0; c < memory.categories.size(); ++c)
    parts.emplace_back(name_of(static_cast<program::Category>(c)), memory.categories[c]);
  parts.emplace_back("the rest of the process", memory.runtime_constant);
  std::erase_if(parts, [](const auto& part) { return part.second.count <= 0; });
  std::ranges::stable_sort(parts, std::ranges::greater{}, [](const auto& part) { return part.second; });
  return parts;
}

std::string contributors_in_words(const MemoryForecast& memory) {
  constexpr std::size_t most = 3;
  std::string line;
  const auto parts = contributors(memory);
  for (std::size_t i = 0; i < std::min(parts.size(), most); ++i)
    line += (line.empty() ? "" : ", ") + parts[i].first + " " + to_string(parts[i].second);
  return line;
}

std::optional<WhyNot> why_not(const plan::Plan& plan, const Report& report, const Forecasting& forecast) {
  const ReportRow* worst = nullptr;
  std::set<int> stages;
  for (const auto& row : report.rows) {
    if (row.fits()) continue;
    stages.insert(row.stages.begin(), row.stages.end());
    const auto over = [](const ReportRow& r) { return tighter_need(r.memory, r.limit).value().over(); };
    if (worst == nullptr || over(row) > over(*worst)) worst = &row;
  }
  if (worst == nullptr) return std::nullopt;
  return WhyNot{shortage_of(*worst), find_remedy(plan, {stages.begin(), stages.end()}, report.iteration, forecast)};
}

std::string in_words(const WhyNot& why) {
  const auto& s = why.shortage;
  std::string words = text("no: rank ", s.rank, " (stage ", s.stage, ", ", s.device_type, ", host ", s.host, ") needs ", s.needed, ", ",
                           s.needed - s.limit, " more than its ", s.of_host ? "part of the host's " : "", s.limit);
  if (s.ranks > 1) words += text(" (as ", s.ranks - 1, " more of this kind)");
  const auto& host = s.memory.on_host;
  words += "\nused by " + (s.of_host ? text("the copy of the state ", host.state, ", pinned buffers ", host.pinned,
                                            ", the rest of the process ", host.process)
                                     : contributors_in_words(s.memory));
  return words + "\n" + (why.remedy ? remedy_in_words(*why.remedy) : "no change that was tried makes it fit");
}

}  // namespace flotilla::simulate
