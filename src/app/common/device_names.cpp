#include "app/common/device_names.hpp"

#include <algorithm>
#include <cmath>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/nearest.hpp"
#include "flotilla/compute/kernel_image.hpp"

namespace flotilla::app {
namespace {

constexpr int usual_per_node = 8;

}  // namespace

bool is_trainable(const cluster::CatalogueEntry* entry) { return entry == nullptr || entry->vendor.empty() || entry->vendor == "NVIDIA"; }

DeviceNames::DeviceNames(const cluster::Profile& library, const cluster::Catalogue& catalogue) : library_{library}, catalogue_{catalogue} {
  for (const auto& type : library.device_types) {
    known_.push_back(type.name);
    per_node_[type.name] = type.per_node;
  }
}

std::string DeviceNames::type_called(const std::string& name) {
  for (const auto& type : known_)
    if (same_word(type, name)) return type;
  const auto* entry = cluster::find(catalogue_, name);
  if (entry == nullptr) return "";
  for (const auto& type : known_)
    if (name.find('+') == name.npos && type.find('+') == type.npos && cluster::find(catalogue_, type) == entry) return type;
  known_.push_back(name);
  per_node_[name] = static_cast<int>(entry->devices_per_node.value);
  return name;
}

int DeviceNames::per_node(const std::string& type) const {
  if (per_node_.at(type) > 0) return per_node_.at(type);
  const auto* entry = cluster::find(catalogue_, type);
  const int usual = entry == nullptr ? 0 : static_cast<int>(entry->devices_per_node.value);
  return usual > 0 ? usual : usual_per_node;
}

bool DeviceNames::is_cpu(const std::string& type) const {
  if (const auto* known = cluster::find_type(library_, type)) return known->kind == cluster::DeviceKind::cpu;
  const auto* entry = cluster::find(catalogue_, type);
  return entry != nullptr && entry->kind == cluster::DeviceKind::cpu;
}

std::string DeviceNames::measured(const std::string& name) const {
  for (const auto& type : library_.device_types)
    if (same_word(type.name, name)) return type.name;
  return "";
}

double DeviceNames::peak(const std::string& type) const {
  const auto most = [](double bf16, double fp16, double fp32) { return std::max({bf16, fp16, fp32}); };
  const auto* known = cluster::find_type(library_, type);
  if (known != nullptr && known->peak_fp32.value > 0) return most(known->peak_bf16.value, known->peak_fp16.value, known->peak_fp32.value);
  const auto* entry = cluster::find(catalogue_, type);
  return entry == nullptr ? 0 : most(entry->bf16.peak.value, entry->fp16.peak.value, entry->fp32.peak.value);
}

std::string DeviceNames::why_no_kernels(const std::string& type) const {
  const auto* entry = cluster::find(catalogue_, type);
  if (entry == nullptr || !entry->compute_capability.known()) return "";
  const int tenths = static_cast<int>(std::lround(10 * entry->compute_capability.value));
  return compute::why_no_kernels(tenths / 10, tenths % 10);
}

std::string DeviceNames::meant(const std::string& asked) const {
  std::string words;
  auto like = read(asked).may_be;
  // "RTX6000" is in the names of two cards; no other is nearer.
  const auto key = cluster::folded_name(asked);
  if (like.empty() && key.size() >= 4)
    for (const auto& entry : catalogue_)
      if (cluster::folded_name(entry.name).find(key) != key.npos) like.push_back(&entry);
  constexpr std::size_t most = 5;
  if (like.size() > most) like.clear();
  for (const auto* entry : like) words += text(words.empty() ? "; did you mean " : " or ", in_quotes(entry->name));
  if (!words.empty()) return words + "?";
  auto all = known_;
  for (const auto& entry : catalogue_) {
    all.push_back(entry.name);
    all.insert(all.end(), entry.aliases.begin(), entry.aliases.end());
  }
  return suggestion(asked, all);
}

std::string DeviceNames::where_listed() {
  return "docs/formats/device-names.md lists those of the catalogue, and --catalogue FILE adds one";
}

}  // namespace flotilla::app
