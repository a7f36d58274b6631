#include "slurm_devices.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include "common/refuse.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/nearest.hpp"

namespace flotilla::app {
namespace {

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

/// The word and what is left of it without vendors' names in front and without its last parts, longest first.
std::vector<std::string> parts_of(std::string word) {
  for (const std::string vendor : {"NVIDIA", "TESLA", "GEFORCE", "AMD", "INSTINCT", "QUADRO"})
    if (upper(word).starts_with(vendor) && word.size() > vendor.size() + 1 && (word[vendor.size()] == '_' || word[vendor.size()] == '-'))
      word.erase(0, vendor.size() + 1);
  std::vector<std::string> parts;
  while (!word.empty()) {
    parts.push_back(word);
    const auto cut = word.find_last_of("_-.");
    word.resize(cut == word.npos ? 0 : cut);
  }
  return parts;
}

/// Threads of a CPU rank in the name that a probe gives its type: "cpu:AMD EPYC 9654:2t". 0: it says none.
int threads_in(const std::string& type) {
  const auto colon = type.rfind(':');
  int threads = 0;
  if (colon == type.npos || !type.ends_with('t')) return 0;
  const auto [rest, failed] = std::from_chars(type.data() + colon + 1, type.data() + type.size() - 1, threads);
  return failed == std::errc{} && rest == type.data() + type.size() - 1 ? threads : 0;
}

int count_of(const std::vector<slurm::Gres>& all, const slurm::Gres& like) {
  int count = 0;
  for (const auto& gres : all)
    if (gres.name == like.name && (gres.type == like.type || gres.type.empty())) count += gres.count;
  return count;
}

}  // namespace

SlurmDevices::SlurmDevices(const SubmitOptions& o, DeviceNames& names) : settings_{o.submit}, names_{names} {
  const auto& setting = o.planning.setting("submit.device-types");
  for (const auto& word : settings_.device_types) {
    const auto equals = word.rfind('=');
    if (equals == word.npos || equals == 0)
      refuse(setting, word, "expected GRES=TYPE, feature:NAME=TYPE or partition:NAME=TYPE; write for example gpu:a100=A100-80");
    const auto type = names_.type_called(word.substr(equals + 1));
    if (type.empty())
      refuse(setting, word, text("there is no such device type", names_.meant(word.substr(equals + 1)), "; there are ", names_.listed()));
    said_[upper(word.substr(0, equals))] = type;
  }
}

std::string SlurmDevices::type_of(const std::string& word) {
  const auto name = names_.catalogued(word);
  return names_.type_called(name.empty() ? word : name);
}

std::string SlurmDevices::said(const std::string& key) const {
  const auto found = said_.find(upper(key));
  return found == said_.end() ? "" : found->second;
}

void SlurmDevices::note(const std::string& words) {
  if (std::ranges::find(notes_, words) == notes_.end()) notes_.push_back(words);
}

/// What features call a type that begins with the word: the one that they agree on.
std::optional<SlurmDevices::Meaning> SlurmDevices::of_features(const slurm::SlurmNode& node, const std::string& beginning) {
  std::optional<Meaning> found;
  for (const auto& feature : node.features)
    for (const auto& part : parts_of(feature)) {
      const auto type = type_of(part);
      if (type.empty()) continue;
      const bool fits =
          beginning.empty() || upper(type).starts_with(upper(beginning)) || same_word(type.substr(0, beginning.size()), beginning);
      if (!fits || names_.is_cpu(type)) continue;
      if (found && found->type != type) return std::nullopt;
      if (!found) found = Meaning{type, feature};
      break;
    }
  return found;
}

std::optional<SlurmDevices::Meaning> SlurmDevices::meaning_of(const slurm::Gres& gres, const slurm::SlurmNode& node,
                                                              const std::string& partition) {
  const std::string whole = gres.type.empty() ? gres.name : gres.name + ":" + gres.type;
  for (const auto& feature : node.features)
    if (auto type = said("feature:" + feature); !type.empty()) return Meaning{type, feature};
  if (auto type = said(whole); !type.empty()) return Meaning{type, ""};
  if (auto type = said("partition:" + partition); !type.empty()) return Meaning{type, ""};
  if (gres.type.empty()) {
    if (auto meaning = of_features(node, "")) return meaning;
    note(text("partition ", partition, ": gres ", in_quotes(whole),
              " has no type and no feature of its nodes names one; name it: --submit.device-types ", whole, "=TYPE or feature:NAME=TYPE"));
    return std::nullopt;
  }
  for (const auto& part : parts_of(gres.type)) {
    if (auto type = type_of(part); !type.empty()) return Meaning{type, ""};
    const auto longer = names_.longer(part);
    if (longer.empty()) continue;
    if (auto meaning = of_features(node, part)) return meaning;
    // Names sort by their figures here, and a plan for the smaller device fits the larger one too.
    note(text("gres ", in_quotes(whole), " may be ", longer.front(), " or ", longer.back(), ": assumed to be ", longer.front(),
              "; to name it exactly: --submit.device-types ", whole, "=", longer.back()));
    return Meaning{names_.type_called(longer.front()), ""};
  }
  note(
      text("partition ", partition, ": unknown gres ", in_quotes(whole), "; name its device type: --submit.device-types ", whole, "=TYPE"));
  return std::nullopt;
}

std::optional<NodeDevices> SlurmDevices::of(const slurm::SlurmNode& node, const std::string& partition) {
  for (const auto& gres : node.gres) {
    if (gres.name != "gpu" && said(gres.name + ":" + gres.type).empty() && said(gres.name).empty()) continue;
    const auto meaning = gres.count > 0 ? meaning_of(gres, node, partition) : std::nullopt;
    if (!meaning) continue;
    NodeDevices devices{meaning->type, gres.type.empty() ? gres.name : gres.name + ":" + gres.type, meaning->constraint, gres.count};
    devices.used = std::min(count_of(node.used, gres), gres.count);
    devices.cpus_each = settings_.cpus_per_task > 0 ? settings_.cpus_per_task : std::max(node.cpus / gres.count, 1);
    return devices;
  }
  for (const auto& [key, type] : said_) {
    const bool here = key == upper("partition:" + partition) ||
                      std::ranges::any_of(node.features, [&](const auto& feature) { return key == upper("feature:" + feature); });
    if (!here || !names_.is_cpu(type)) continue;
    const int each = settings_.cpus_per_task > 0 ? settings_.cpus_per_task : std::max(threads_in(type), 1);
    return NodeDevices{type, "", "", node.cpus / each, (node.cpus - node.idle_cpus + each - 1) / each, each};
  }
  return std::nullopt;
}

}  // namespace flotilla::app
