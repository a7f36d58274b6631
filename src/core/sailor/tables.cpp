#include "flotilla/sailor/tables.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace flotilla::sailor {
namespace {

constexpr std::uint64_t pair_key(std::uint32_t a, std::uint32_t b) { return std::uint64_t{a} << 32 | b; }

/// A type, a zone and a count, or a type, a degree and a microbatch; profile files keep all of them below 2^24 and fewer than 2^20 names.
constexpr std::uint64_t key_of(int a, int b, int c) {
  constexpr std::uint64_t mask = (std::uint64_t{1} << 20) - 1;
  return (static_cast<std::uint64_t>(a) & mask) << 44 | (static_cast<std::uint64_t>(b) & mask) << 24 |
         (static_cast<std::uint64_t>(c) & ((std::uint64_t{1} << 24) - 1));
}

template <class Values, class Name>
std::optional<int> find_name(const Values& values, std::string_view name, Name name_of) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (name_of(values[i]) == name) return static_cast<int>(i);
  return std::nullopt;
}

}  // namespace

template <std::size_t K>
bool PrefixSums<K>::finish(int layers) {
  std::stable_sort(ranges_.begin(), ranges_.end(), [](const LayerRun& a, const LayerRun& b) { return a.first < b.first; });
  std::vector<LayerRun> kept;
  std::array<double, K> sums{};
  for (LayerRun range : ranges_) {
    const int end = kept.empty() ? 0 : kept.back().last;
    if (range.first > end) return false;
    if (range.first < end) continue;
    range.before = sums;
    for (std::size_t k = 0; k < K; ++k) sums[k] += range.each[k] * (range.last - range.first);
    kept.push_back(range);
  }
  ranges_ = std::move(kept);
  return !ranges_.empty() && ranges_.back().last == layers;
}
template class PrefixSums<3>;

SailorTables::SailorTables(const cluster::Profile& profile, const model::Config& model)
    : layers_{model.layers()}, types_{profile.device_types} {
  add_times(profile, model.name);
  add_sizes(profile, model.name);
  add_fits(profile);
  for (const auto& price : profile.egress_prices) {
    const auto from = static_cast<std::uint32_t>(add_zone(price.from_zone)), to = static_cast<std::uint32_t>(add_zone(price.to_zone));
    egress_.emplace(pair_key(from, to), price.usd_per_byte);
  }
}

std::optional<int> SailorTables::type(std::string_view name) const {
  return find_name(types_, name, [](const cluster::DeviceType& t) -> const std::string& { return t.name; });
}
std::optional<int> SailorTables::zone(std::string_view name) const {
  return find_name(zones_, name, [](const std::string& z) -> const std::string& { return z; });
}

int SailorTables::add_zone(const std::string& name) {
  if (const auto known = zone(name)) return *known;
  zones_.push_back(name);
  return static_cast<int>(zones_.size()) - 1;
}

void SailorTables::add_times(const cluster::Profile& profile, const std::string& model) {
  std::map<std::tuple<int, int, int>, PrefixSums<3>> all;
  for (const auto& time : profile.layer_times)
    if (const auto number = type(time.device_type); number && time.model == model && time.precision == Precision::fp32)
      all[{*number, time.tensor_parallel, time.sequences}].add(time.first_layer, time.last_layer,
                                                               {time.forward.value, time.backward.value, time.update.value});
  for (auto& [key, sums] : all) {
    if (!sums.finish(layers_)) continue;
    const auto [number, degree, sequences] = key;
    cells_.emplace(key_of(number, degree, sequences), static_cast<int>(times_.size()));
    times_.push_back(std::move(sums));
  }
}

void SailorTables::add_sizes(const cluster::Profile& profile, const std::string& model) {
  std::map<int, PrefixSums<3>> all;
  for (const auto& size : profile.layer_sizes)
    if (size.model == model)
      all[size.tensor_parallel].add(
          size.first_layer, size.last_layer,
          {static_cast<double>(size.parameters), static_cast<double>(size.output), static_cast<double>(size.saved)});
  for (auto& [degree, sums] : all) {
    if (!sums.finish(layers_)) continue;
    degrees_.emplace(degree, static_cast<int>(sizes_.size()));
    if (whole_ < 0) whole_ = static_cast<int>(sizes_.size()), whole_degree_ = degree;
    sizes_.push_back(std::move(sums));
  }
}

void SailorTables::add_fits(const cluster::Profile& profile) {
  const auto end_of = [&](int zone, int type, int count) {
    return ends_.emplace(key_of(zone, type, count), static_cast<std::uint32_t>(ends_.size())).first->second;
  };
  for (const auto& fit : profile.link_fits) {
    const auto from_type = type(fit.from_type), to_type = type(fit.to_type);
    if (fit.inside_node() || !from_type || !to_type) continue;
    const auto from = end_of(add_zone(fit.from_zone), *from_type, fit.from_count);
    const auto to = end_of(add_zone(fit.to_zone), *to_type, fit.to_count);
    if (pairs_.emplace(pair_key(from, to), static_cast<int>(fits_.size())).second) fits_.push_back(fit);
  }
}

int SailorTables::cell(int type, int tensor_parallel, int sequences) const {
  const auto found = cells_.find(key_of(type, tensor_parallel, sequences));
  return found == cells_.end() ? -1 : found->second;
}

const cluster::LinkFit* SailorTables::fit(int from_zone, int from_type, int from_count, int to_zone, int to_type, int to_count) const {
  const auto from = ends_.find(key_of(from_zone, from_type, from_count)), to = ends_.find(key_of(to_zone, to_type, to_count));
  if (from == ends_.end() || to == ends_.end()) return nullptr;
  auto found = pairs_.find(pair_key(from->second, to->second));
  if (found == pairs_.end()) found = pairs_.find(pair_key(to->second, from->second));
  return found == pairs_.end() ? nullptr : &fits_[static_cast<std::size_t>(found->second)];
}

const cluster::LinkFit* SailorTables::link(const SailorKind& from, const SailorKind& to) const {
  const auto count = [&](const SailorKind& kind) {
    const int per_node = type(kind.type).per_node;
    return per_node > 0 ? std::min(kind.tensor_parallel, per_node) : kind.tensor_parallel;
  };
  return fit(from.zone, from.type, count(from), to.zone, to.type, count(to));
}
const cluster::LinkFit* SailorTables::single_link(const SailorKind& from, const SailorKind& to) const {
  return fit(from.zone, from.type, 1, to.zone, to.type, 1);
}

double SailorTables::output_bytes(int layer) const { return 4 * sizes_[static_cast<std::size_t>(whole_)].at(1, layer); }
double SailorTables::weight_bytes(int first, int last) const {
  return 4 * whole_degree_ * sizes_[static_cast<std::size_t>(whole_)].sum(0, first, last);
}

std::optional<SailorTables::LayerHoldings> SailorTables::held(int tensor_parallel, int first, int last) const {
  const auto found = degrees_.find(tensor_parallel);
  if (found == degrees_.end()) return std::nullopt;
  const auto& sizes = sizes_[static_cast<std::size_t>(found->second)];
  return LayerHoldings{sizes.sum(0, first, last), sizes.sum(2, first, last)};
}

std::optional<double> SailorTables::egress_price(int from, int to) const {
  const auto found = egress_.find(pair_key(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to)));
  if (found != egress_.end()) return found->second;
  return from == to ? std::optional{0.0} : std::nullopt;
}

}  // namespace flotilla::sailor
