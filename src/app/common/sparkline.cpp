#include "app/common/sparkline.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

namespace flotilla::app {
namespace {

constexpr std::array<const char*, 8> levels{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

std::optional<double> mean(std::span<const double> values) {
  double sum = 0;
  std::size_t counted = 0;
  for (const double v : values)
    if (std::isfinite(v)) sum += v, ++counted;
  return counted == 0 ? std::nullopt : std::optional{sum / static_cast<double>(counted)};
}

}  // namespace

std::string sparkline(std::span<const double> values, std::size_t width) {
  if (std::ranges::count_if(values, [](double v) { return std::isfinite(v); }) < 2 || width == 0) return {};
  const std::size_t cells = std::min(width, values.size());
  std::vector<std::optional<double>> means;
  for (std::size_t i = 0; i < cells; ++i) {
    const auto from = i * values.size() / cells, to = (i + 1) * values.size() / cells;
    means.push_back(mean(values.subspan(from, to - from)));
  }
  double low = INFINITY, high = -INFINITY;
  for (const auto& value : means)
    if (value) low = std::min(low, *value), high = std::max(high, *value);
  std::string out;
  for (const auto& value : means) {
    const double place = !value || !(high > low) ? 0 : (*value - low) / (high - low);
    out += value ? levels.at(std::min(levels.size() - 1, static_cast<std::size_t>(place * static_cast<double>(levels.size())))) : " ";
  }
  return out;
}

}  // namespace flotilla::app
