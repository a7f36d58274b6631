#include <algorithm>
#include <string_view>

#include "flotilla/base/error.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/bench/report.hpp"

namespace flotilla::bench {
namespace {

constexpr std::string_view device_number_sign = " #";

std::string subject_of(const std::string& figure) {
  const auto colon = figure.find(':');
  return colon == figure.npos ? "" : figure.substr(colon + 1);
}

/// "1.23 T" before a unit.
std::string scaled(double value) {
  constexpr std::pair<double, const char*> steps[]{{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}};
  for (const auto& [least, prefix] : steps)
    if (value >= least) return formatted("%.3g", value / least) + prefix;
  return formatted("%.3g", value) + " ";
}

template <class Named>
const Named* find_named(const std::vector<Named>& all, const std::string& name) {
  const auto found = std::ranges::find(all, name, &Named::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

const std::vector<FigureKind>& figure_kinds() {
  static const std::vector<FigureKind> kinds{{"memory", "memory", "B", true, 0.02, false},
                                             {"memory_bandwidth", "memory bandwidth", "B/s", true, 0.10},
                                             {"matmul_fp32", "matrix products, fp32", "FLOP/s", true, 0.08},
                                             {"matmul_bf16", "matrix products, bf16", "FLOP/s", true, 0.08},
                                             {"step", "known-answer step", "s", false, 0.10},
                                             {"gpu_memory", "free GPU memory", "B", true, 0.05, false},
                                             {"gpu_memory_bandwidth", "GPU memory bandwidth", "B/s", true, 0.08, false},
                                             {"gpu_matmul_fp32", "GPU matrix products, fp32", "FLOP/s", true, 0.08, false},
                                             {"gpu_matmul_bf16", "GPU matrix products, bf16", "FLOP/s", true, 0.08, false},
                                             {"gpu_copy_in", "copies to GPU", "B/s", true, 0.15},
                                             {"gpu_copy_out", "copies from GPU", "B/s", true, 0.15},
                                             {"disk_write", "disk, write", "B/s", true, 0.40},
                                             {"disk_read", "disk, read", "B/s", true, 0.40},
                                             {"tokens_per_second", "training", "tokens/s", true, 0.08},
                                             {"tokens_per_joule", "training for its energy", "tokens/J", true, 0.10},
                                             {"memory_headroom", "memory left while training", "B", true, 0.10, false}};
  return kinds;
}

std::string numbered_device(const std::string& name, int number) { return text(name, device_number_sign, number); }

std::string without_device_number(const std::string& name) {
  const auto sign = name.rfind(device_number_sign);
  if (sign == name.npos) return name;
  const auto digits = name.substr(sign + device_number_sign.size());
  return !digits.empty() && std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; }) ? name.substr(0, sign) : name;
}

const FigureKind& kind_of(const std::string& figure) {
  const auto found = std::ranges::find(figure_kinds(), figure.substr(0, figure.find(':')), &FigureKind::key);
  FLOTILLA_REQUIRE(found != figure_kinds().end(), ErrorKind::bad_input, "no such figure: ", figure);
  return *found;
}

std::string value_in_words(double value, const std::string& name) {
  if (name == "B") return to_string(Bytes{static_cast<std::int64_t>(value)});
  if (name == unit::seconds) return to_string(Seconds{value});
  if (name == unit::bytes_per_second) return to_string(BytesPerSecond{value});
  return scaled(value) + name;
}

std::string value_in_words(const MeasuredFigure& figure) { return value_in_words(figure.value, kind_of(figure.name).unit); }

std::string in_words(const MeasuredFigure& figure) {
  const auto subject = subject_of(figure.name);
  return text(kind_of(figure.name).title, subject.empty() ? "" : " of " + subject, " ", value_in_words(figure));
}

double worsening(const FigureKind& kind, double before, double after) {
  if (before == 0) return 0;
  return (kind.more_is_better ? before - after : after - before) / before;
}

bool busy(const NodeReport& node) {
  constexpr double much = 0.10;
  return node.others > much;
}

const std::string* find_property(const NodeReport& node, const std::string& name) {
  const auto* found = find_named(node.properties, name);
  return found == nullptr ? nullptr : &found->value;
}

const double* find_figure(const NodeReport& node, const std::string& name) {
  const auto* found = find_named(node.figures, name);
  return found == nullptr ? nullptr : &found->value;
}

std::vector<double> figure_values(const NodeReport& node, const std::string& name) {
  std::vector<double> values;
  for (const auto& figure : node.figures)
    if (without_device_number(figure.name) == name) values.push_back(figure.value);
  return values;
}

std::optional<double> worst_value(const NodeReport& node, const std::string& name) {
  const auto values = figure_values(node, name);
  if (values.empty()) return std::nullopt;
  return kind_of(name).more_is_better ? std::ranges::min(values) : std::ranges::max(values);
}

}  // namespace flotilla::bench
