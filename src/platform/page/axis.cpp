#include "axis.hpp"

#include <array>
#include <cmath>

#include "flotilla/base/figures.hpp"
#include "flotilla/base/units.hpp"

namespace flotilla::page {
namespace {

struct NamedUnit {
  const char* name;
  double size;
};
constexpr std::array<NamedUnit, 6> time_units{{{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}}};
constexpr std::array<NamedUnit, 6> byte_units{
    {{"PiB", 0x1p50}, {"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}, {"B", 1}}};

constexpr double few_powers = 1000;  // between the ends of a logarithmic axis that one unit suits

const std::array<NamedUnit, 6>& units_of(Quantity quantity) { return quantity == Quantity::seconds ? time_units : byte_units; }

/// "32 KiB": in the largest unit that it is one of.
std::string in_own_unit(const std::array<NamedUnit, 6>& units, double value) {
  const auto found = std::ranges::find_if(units, [&](const NamedUnit& unit) { return value >= unit.size * (1 - 1e-9); });
  const auto& unit = found == units.end() ? units.back() : *found;
  return formatted("%.4g ", value / unit.size) + unit.name;
}

/// The largest unit of which the range holds two.
NamedUnit unit_for(const std::array<NamedUnit, 6>& units, double most) {
  const auto found = std::ranges::find_if(units, [&](const NamedUnit& unit) { return most >= 2 * unit.size; });
  return found == units.end() ? units.back() : *found;
}

/// "0.05", "12", "1.5k", "20M".
std::string short_figure(double value) {
  constexpr std::array<NamedUnit, 4> prefixes{{{"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3}}};
  for (const auto& [name, size] : prefixes)
    if (std::abs(value) >= size * (1 - 1e-9) && std::abs(value) < 1e15) return formatted("%.4g", value / size) + name;
  return formatted("%.4g", value);
}

}  // namespace

double nice_step(double least) {
  if (!(least > 0) || !std::isfinite(least)) return 1;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

Scale::Scale(const PlotAxis& axis, std::span<const double> values) : axis_{axis}, logarithmic_{axis.logarithmic} {
  const auto finite = [](double v) { return std::isfinite(v); };
  logarithmic_ = logarithmic_ && std::ranges::none_of(values, [&](double v) { return finite(v) && v <= 0; });
  double low = 0, high = 0;
  bool any = false;
  for (const double v : values) {
    if (!finite(v)) continue;
    low = any ? std::min(low, v) : v;
    high = any ? std::max(high, v) : v;
    any = true;
  }
  if (!any) low = logarithmic_ ? 1 : 0, high = logarithmic_ ? 10 : 1;
  if (axis.from_zero && !logarithmic_) low = std::min(low, 0.0), high = std::max(high, 0.0);
  if (!(high > low)) {  // one value stands in the middle
    const double half = low == 0 ? 1 : std::abs(low) / 2;
    high = logarithmic_ ? low * 2 : low + half;
    low = logarithmic_ ? low / 2 : axis.from_zero ? low : low - half;
  }
  low_ = low;
  high_ = high;
  const double most = std::max(std::abs(low), std::abs(high));
  if (axis.quantity == Quantity::number) return;
  own_units_ = logarithmic_ && high_ / low_ > few_powers;
  if (own_units_) return;
  const auto unit = unit_for(units_of(axis.quantity), most);
  unit_ = unit.size;
  unit_name_ = unit.name;
}

void Scale::join(Scale& a, Scale& b) {
  a.low_ = b.low_ = std::min(a.low_, b.low_);
  a.high_ = b.high_ = std::max(a.high_, b.high_);
  a.unit_ = b.unit_ = std::max(a.unit_, b.unit_);
  a.unit_name_ = b.unit_name_ = a.unit_ > b.unit_ ? a.unit_name_ : b.unit_name_;
}

double Scale::step(int most) const { return nice_step((high_ - low_) / unit_ / std::max(1, most)) * unit_; }

void Scale::widen_to_ticks(int most) {
  if (logarithmic_) {
    low_ = low_ / 1.05, high_ = high_ * 1.05;
    return;
  }
  const double by = step(most);
  low_ = std::floor(low_ / by + 1e-9) * by;
  high_ = std::ceil(high_ / by - 1e-9) * by;
}

bool Scale::shows(double value) const {
  const double slack = 1e-9 * (high_ - low_);
  return std::isfinite(value) && value >= low_ - slack && value <= high_ + slack;
}

double Scale::place(double value) const {
  const double along =
      logarithmic_ ? (std::log(value) - std::log(low_)) / (std::log(high_) - std::log(low_)) : (value - low_) / (high_ - low_);
  return std::clamp(along, 0.0, 1.0);
}

std::vector<Tick> Scale::powers_of_two(int most) const {
  std::vector<Tick> all;
  const double low = std::ceil(std::log2(low_) - 1e-9), high = std::log2(high_) + 1e-9;
  const double by = high - low <= 5.0 * most ? 5 : 10;
  for (double power = std::ceil(low / by) * by; power <= high; power += by) all.push_back({std::exp2(power), tick_label(std::exp2(power))});
  return all;
}

std::vector<Tick> Scale::ticks(int most) const {
  if (own_units_ && axis_.quantity == Quantity::bytes) return powers_of_two(most);
  std::vector<Tick> all;
  if (logarithmic_ && high_ / low_ >= 10) {
    const double low = std::log10(low_ / unit_), high = std::log10(high_ / unit_);
    // Powers of ten where there are enough of them; 1, 2, 5 between them where there are few.
    const bool fine = high - low < 2.5 && most >= 5;
    const int every = std::max(1, static_cast<int>(std::ceil((high - low) / most)));
    for (int decade = static_cast<int>(std::floor(low)); decade <= high; decade += every)
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double value = factor * std::pow(10, decade) * unit_;
        if ((factor == 1 || fine) && shows(value)) all.push_back({value, tick_label(value)});
      }
    return all;
  }
  const double by = step(most);
  for (double n = std::ceil(low_ / by - 1e-9); n * by <= high_ + 1e-9 * (high_ - low_); ++n) all.push_back({n * by, tick_label(n * by)});
  return all;
}

std::string Scale::tick_label(double value) const {
  if (own_units_) return in_own_unit(units_of(axis_.quantity), value);
  const std::string figure = short_figure(std::abs(value) < 1e-12 * std::abs(high_) ? 0 : value / unit_);
  return axis_.unit == "$" ? "$" + figure : figure;
}

std::string Scale::title() const {
  const std::string unit = !unit_name_.empty() ? unit_name_ : axis_.unit == "$" ? "" : axis_.unit;
  if (unit.empty()) return axis_.label;
  return axis_.label.empty() ? unit : axis_.label + ", " + unit;
}

std::string Scale::in_words(double value) const {
  if (!std::isfinite(value)) return "-";
  switch (axis_.quantity) {
    case Quantity::seconds: return to_string(Seconds{value});
    case Quantity::bytes: return std::abs(value) < 9e18 ? to_string(Bytes{static_cast<std::int64_t>(value)}) : "-";
    case Quantity::number: break;
  }
  const std::string figure = std::abs(value) < 1e5 ? formatted("%.5g", value) : short_figure(value);
  if (axis_.unit == "$") return "$" + figure;
  return axis_.unit.empty() ? figure : figure + " " + axis_.unit;
}

}  // namespace flotilla::page
