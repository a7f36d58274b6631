#include "flotilla/cluster/catalogue.hpp"

#include <algorithm>
#include <cctype>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/nearest.hpp"

namespace flotilla::cluster {
namespace {

constexpr std::string_view tf32_suffix = "+tf32";

std::vector<std::string> known_names(const Catalogue& catalogue) {
  std::vector<std::string> names;
  for (const auto& entry : catalogue) {
    names.push_back(entry.name);
    names.insert(names.end(), entry.aliases.begin(), entry.aliases.end());
  }
  return names;
}

bool asks_for_tf32(std::string_view name) { return folded_name(name).ends_with(tf32_suffix); }

Fp32Products products_of(std::string_view name) { return asks_for_tf32(name) ? Fp32Products::tf32 : Fp32Products::ieee; }

/// All of it where nothing is known.
double share_or_all(const Figure& figure) { return figure.known() ? figure.value : 1; }

/// bf16 and fp16 run on the same units at the same rates where a type has both.
const ProductFigures& half_precision(const CatalogueEntry& e) { return e.bf16.peak.known() ? e.bf16 : e.fp16; }

Efficiency efficiency_of(const CatalogueEntry& e, Fp32Products products) {
  const ProductFigures& single = products == Fp32Products::tf32 ? e.tf32 : e.fp32;
  const ProductFigures& half = half_precision(e);
  Efficiency out;
  out.matrix = share_or_all(single.matrix);
  out.half = single.half.value;
  if (single.relative_error.known()) out.error = single.relative_error.value;
  out.matrix_16 = share_or_all(half.matrix);
  out.half_16 = half.half.value;
  if (half.relative_error.known()) out.error_16 = half.relative_error.value;
  out.memory = share_or_all(e.memory_share);
  out.launch = {e.launch.value};
  out.overlap = share_or_all(e.overlap);
  return out;
}

/// Figures that are 0 take the catalogue's; peaks that are taken bring their efficiency.
void fill(DeviceType& type, const DeviceType& from) {
  const bool peaks = type.peak_fp32.value == 0 && type.peak_bf16.value == 0 && type.peak_fp16.value == 0;
  if (peaks) {
    type.peak_fp32 = from.peak_fp32;
    type.peak_bf16 = from.peak_bf16;
    type.peak_fp16 = from.peak_fp16;
    if (type.efficiency == Efficiency{}) type.efficiency = from.efficiency;
  }
  if (type.memory.count == 0) type.memory = from.memory;
  if (type.memory_bandwidth.value == 0) type.memory_bandwidth = from.memory_bandwidth;
  if (type.per_node == 0) type.per_node = from.per_node;
  if (type.context.count == 0) type.context = from.context;
  if (type.node_links.bundles.empty()) type.node_links = from.node_links;
  if (type.switch_sums.value == 0) type.switch_sums = from.switch_sums;
  if (type.power_watts == 0) type.power_watts = from.power_watts;
}

/// Fp32 times of the type may have been taken with TF32.
bool may_have_used_tf32(const Profile& profile, const std::string& type) {
  const auto of_type = [&](const auto& time) { return time.device_type == type && time.precision == Precision::fp32; };
  return std::ranges::any_of(profile.layer_times, of_type) || std::ranges::any_of(profile.operation_times, of_type);
}

/// Adds the type, or fills it in. Whether it was new.
bool complete_type(Profile& profile, const Catalogue& catalogue, const std::string& name) {
  const auto known = std::ranges::find(profile.device_types, name, &DeviceType::name);
  if (known == profile.device_types.end()) {
    profile.device_types.push_back(device_type(catalogue, name));
    return true;
  }
  const auto* entry = find(catalogue, name);
  if (!entry) return false;
  const bool tf32 = asks_for_tf32(name) || (entry->tf32.peak.known() && may_have_used_tf32(profile, name));
  fill(*known, device_type(*entry, tf32 ? Fp32Products::tf32 : Fp32Products::ieee));
  return false;
}

bool says_something(const Profile& profile, LinkLevel level) {
  return std::ranges::any_of(profile.links, [&](const Link& link) { return link.level == level; });
}

}  // namespace

const CatalogueEntry* find(const Catalogue& catalogue, std::string_view name) {
  std::string key = folded_name(name);
  if (asks_for_tf32(name)) key.resize(key.size() - tf32_suffix.size());
  if (const auto* named = find_named(catalogue, key)) return named;
  if (asks_for_tf32(name)) name.remove_suffix(name.size() - std::min(name.size(), name.find('+')));
  const auto word = read_device_word(catalogue, name);
  return word.may_be.size() == 1 ? word.may_be.front() : nullptr;
}

DeviceType device_type(const CatalogueEntry& e, Fp32Products products) {
  const bool tf32 = products == Fp32Products::tf32;
  FLOTILLA_REQUIRE(!tf32 || e.tf32.peak.known(), ErrorKind::unavailable, "device type ", in_quotes(e.name),
                   " of the hardware catalogue does not multiply in TF32; name it without ", in_quotes(tf32_suffix));
  DeviceType type;
  type.name = e.name;
  type.kind = e.kind;
  type.memory = {static_cast<std::int64_t>(e.memory.value)};
  type.peak_fp32 = {tf32 ? e.tf32.peak.value : e.fp32.peak.value};
  type.peak_bf16 = {e.bf16.peak.value};
  type.peak_fp16 = {e.fp16.peak.value};
  type.memory_bandwidth = {e.memory_bandwidth.value};
  type.per_node = static_cast<int>(e.devices_per_node.value);
  type.context = {static_cast<std::int64_t>(e.context.value)};
  type.power_watts = e.power.value;
  type.node_links = e.node_links;
  type.switch_sums = {e.switch_sums.value};
  type.efficiency = efficiency_of(e, products);
  type.source = text("hardware catalogue: ", e.description);
  return type;
}

DeviceType device_type(const Catalogue& catalogue, std::string_view name) {
  const auto* entry = find(catalogue, name);
  FLOTILLA_REQUIRE(entry, ErrorKind::bad_input, "the hardware catalogue has no device type ", in_quotes(name),
                   suggestion(name, known_names(catalogue)));
  DeviceType type = device_type(*entry, products_of(name));
  type.name = name;
  return type;
}

Profile complete_from_catalogue(Profile profile, const Catalogue& catalogue, const std::vector<std::string>& types) {
  std::vector<std::string> fresh, listed;
  for (const auto& name : types) {
    if (complete_type(profile, catalogue, name)) fresh.push_back(name);
    if (find(catalogue, name)) listed.push_back(name);
  }
  const Profile before = profile;
  const auto is_fresh = [&](const std::string& name) { return std::ranges::find(fresh, name) != fresh.end(); };
  for (auto& link : catalogue_links(catalogue, listed))
    if (is_fresh(link.from) || is_fresh(link.to) || !says_something(before, link.level)) profile.links.push_back(std::move(link));
  return profile;
}

}  // namespace flotilla::cluster
