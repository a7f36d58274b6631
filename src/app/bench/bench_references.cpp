#include "app/bench/bench_references.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

#include "flotilla/files/catalogue_file.hpp"

namespace flotilla::app {
namespace {

constexpr const char* any_processor = "CPU";  // one core

double number_of(const bench::NodeReport& node, const char* property) {
  const auto* words = bench::find_property(node, property);
  double number = 0;
  if (words != nullptr) std::from_chars(words->data(), words->data() + words->size(), number);
  return number;
}

/// Those that the tests may use.
double cores_of(const bench::NodeReport& node) {
  const double cores = number_of(node, bench::property::cores), threads = number_of(node, bench::property::hardware_threads);
  const double usable = number_of(node, bench::property::usable_threads);
  return threads > 0 && usable > 0 ? cores * std::min(1.0, usable / threads) : cores;
}

std::optional<double> figure_of(const cluster::CatalogueEntry& entry, const std::string& kind) {
  const auto known = [](const cluster::Figure& figure) { return figure.known() ? std::optional{figure.value} : std::nullopt; };
  if (kind.ends_with("memory_bandwidth")) return known(entry.memory_bandwidth);
  if (kind.ends_with("matmul_fp32")) return known(entry.fp32.peak);
  if (kind.ends_with("matmul_bf16")) return known(entry.bf16.peak);
  if (kind == "gpu_memory") return known(entry.memory);
  if (kind.starts_with("gpu_copy_")) return known(entry.host_link_rate);
  return std::nullopt;
}

}  // namespace

References::References(const BenchResult& result)
    : learned_{result.baselines},
      siblings_{bench::learn(std::vector<bench::BenchReport>{result.report})},
      catalogue_{files::built_in_catalogue()} {}

const bench::Baseline* References::usual(const std::string& type, const std::string& figure) const {
  const auto* learned = bench::find_baseline(learned_, type, figure);
  return learned != nullptr ? learned : bench::find_baseline(siblings_, type, figure);
}

std::optional<double> References::catalogue(const bench::NodeReport& node, const std::string& figure) const {
  const auto name = bench::without_device_number(figure);
  const auto colon = name.find(':');
  const auto kind = name.substr(0, colon);
  const bool gpu = kind.starts_with("gpu_") && colon != name.npos;
  const auto* entry = cluster::find(catalogue_, gpu ? name.substr(colon + 1) : any_processor);
  const double devices = gpu ? 1 : cores_of(node);
  const auto value = entry == nullptr ? std::nullopt : figure_of(*entry, kind);
  if (!value || devices <= 0) return std::nullopt;
  return *value * devices;
}

double goodness(const bench::MeasuredFigure& figure, double reference) {
  const bool more = bench::kind_of(figure.name).more_is_better;
  const double better = more ? figure.value : reference, worse = more ? reference : figure.value;
  return worse > 0 ? better / worse : 0;
}

}  // namespace flotilla::app
