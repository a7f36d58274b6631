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

/// Threads of a CPU rank in the name that a probe gives its type: "cpu:AMD EPYC 9654:2t". 0: it says none.
int threads_in(const std::string& type) {
  const auto colon = type.rfind(':');
  int threads = 0;
  if (colon == type.npos || !type.ends_with('t')) return 0;
  const auto [rest, failed] = std::from_chars(type.data() + colon + 1, type.data() + type.size() - 1, threads);
  return failed == std::errc{} && rest == type.data() + type.size() - 1 ? threads : 0;
}

int number(std::int64_t count) { return static_cast<int>(std::min<std::int64_t>(count, 1'000'000)); }

/// Devices in use: those of the gres, and those that shards and MPS of other jobs are on where these are all that the node has.
int used_of(const slurm::SlurmNode& node, const slurm::Gres& like) {
  std::int64_t count = 0;
  for (const auto& gres : node.used)
    if (gres.name == like.name && (gres.type == like.type || gres.type.empty())) count += gres.count;
  return number(std::min(count + (like.name == "gpu" ? node.shared_gpus : 0), like.count));
}

std::string name_of(const slurm::Gres& gres) { return gres.type.empty() ? gres.name : gres.name + ":" + gres.type; }

std::string listed(const std::vector<const cluster::CatalogueEntry*>& entries) {
  std::string words;
  for (const auto* entry : entries) words += text(words.empty() ? "" : entry == entries.back() ? " or " : ", ", entry->name);
  return words;
}

/// Those of `some` that are among `others`, too.
std::vector<const cluster::CatalogueEntry*> common(std::vector<const cluster::CatalogueEntry*> some,
                                                   const std::vector<const cluster::CatalogueEntry*>& others) {
  std::erase_if(some, [&](const auto* entry) { return std::ranges::find(others, entry) == others.end(); });
  return some;
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
      refuse(setting, word, text("there is no such device type", names_.meant(word.substr(equals + 1)), "; ", names_.where_listed()));
    said_[upper(word.substr(0, equals))] = type;
  }
}

const cluster::DeviceWord& SlurmDevices::word(const std::string& text_of_site) {
  const auto known = words_.find(text_of_site);
  return known != words_.end() ? known->second : words_.emplace(text_of_site, names_.read(text_of_site)).first->second;
}

std::string SlurmDevices::said(const std::string& key) const {
  const auto found = said_.find(upper(key));
  return found == said_.end() ? "" : found->second;
}

void SlurmDevices::note(const std::string& words, const std::string& partition) {
  auto at = std::ranges::find(notes_, words, &Note::words);
  if (at == notes_.end()) at = notes_.insert(at, {words, {}});
  if (!partition.empty() && std::ranges::find(at->partitions, partition) == at->partitions.end()) at->partitions.push_back(partition);
}

std::vector<std::string> SlurmDevices::notes() const {
  std::vector<std::string> all;
  for (const auto& [words, partitions] : notes_) {
    std::string where;
    for (const auto& name : partitions) where += (where.empty() ? "" : ", ") + name;
    all.push_back(partitions.empty() ? words : text(partitions.size() == 1 ? "partition " : "partitions ", where, ": ", words));
  }
  return all;
}

/// What to write where a site's gres have no type: its partition's name may say which card they are.
std::string SlurmDevices::partition_hint(const std::string& partition) {
  const auto& may_be = word(partition).may_be;
  return text("partition:", partition, "=", may_be.empty() ? "TYPE" : may_be.front()->name);
}

/// What the gres's type may be, as far as features do not tell more; nothing, with a note, where nobody knows it.
std::optional<SlurmDevices::Meaning> SlurmDevices::read(const slurm::Gres& gres, const slurm::SlurmNode& node,
                                                        const std::string& partition) {
  const auto whole = name_of(gres);
  const auto key = gres.type.empty() ? partition_hint(partition) : whole + "=TYPE";
  const auto unknown = [&](const std::string& why, const std::string& feature = "") {
    const auto named = feature.empty() ? key + " or feature:NAME=TYPE" : "feature:" + feature + "=TYPE";
    note(text(why, "; name it: --submit.device-types ", named), partition);
    return std::nullopt;
  };
  std::vector<const cluster::CatalogueEntry*> may_be;
  std::string constraint;
  if (const auto type = names_.measured(gres.type); !type.empty()) return Meaning{type, ""};
  if (!gres.type.empty()) {
    const auto& read = word(gres.type);
    if (read.slice) return unknown(text(gres.count, " ", in_quotes(whole), " of a node are slices of cards (MIG), not cards: left out"));
    if (read.may_be.empty()) return unknown(text("unknown gres ", in_quotes(whole), names_.meant(gres.type)));
    may_be = read.may_be;
  } else {
    const auto mig = std::ranges::find_if(node.features, [&](const auto& feature) { return word(feature).slice; });
    if (mig != node.features.end())
      return unknown(
          text(gres.count, " ", in_quotes(whole), " of a node are slices of cards by its feature ", in_quotes(*mig), ": left out"), *mig);
  }
  for (const auto& feature : node.features) {
    if (may_be.size() == 1) break;
    const auto& read = word(feature);
    auto left = may_be.empty() ? read.may_be : read.may_be.empty() ? cluster::narrowed(may_be, feature) : common(may_be, read.may_be);
    if (left.empty() && gres.type.empty() && !read.may_be.empty()) return unknown("features of a node name different devices");
    if (left.empty() || left.size() == may_be.size()) continue;
    may_be = std::move(left);
    constraint = feature;
  }
  if (may_be.empty()) return unknown(text("gres ", in_quotes(whole), " has no type and no feature of its nodes names one"));
  // A plan for the smaller device fits the larger one, too.
  if (may_be.size() > 1)
    note(text(constraint.empty() ? text("gres ", in_quotes(whole)) : text("feature ", in_quotes(constraint)), " may be ", listed(may_be),
              ": assumed to be ", may_be.front()->name, "; to name it exactly: --submit.device-types ",
              constraint.empty() ? whole : "feature:" + constraint, "=", may_be.back()->name));
  return Meaning{names_.type_called(may_be.front()->name), constraint};
}

std::optional<SlurmDevices::Meaning> SlurmDevices::meaning_of(const slurm::Gres& gres, const slurm::SlurmNode& node,
                                                              const std::string& partition) {
  for (const auto& feature : node.features)
    if (auto type = said("feature:" + feature); !type.empty()) return Meaning{type, feature};
  if (auto type = said(name_of(gres)); !type.empty()) return Meaning{type, ""};
  if (auto type = said("partition:" + partition); !type.empty() && !names_.is_cpu(type)) return Meaning{type, ""};
  return read(gres, node, partition);
}

std::optional<NodeDevices> SlurmDevices::gpus_of(const slurm::SlurmNode& node, const slurm::Partition& p) {
  std::optional<NodeDevices> best;
  std::string others;
  bool alone = true;
  const auto power = [&](const NodeDevices& d) { return d.count * names_.peak(d.type); };
  for (const auto& gres : node.gres) {
    const bool named = !said(name_of(gres)).empty() || !said(gres.name).empty();
    if ((gres.name != "gpu" && !named) || gres.count <= 0) continue;
    const auto meaning = meaning_of(gres, node, p.name);
    if (!meaning) {
      alone = false;
      continue;
    }
    NodeDevices devices{meaning->type, name_of(gres), meaning->constraint, number(gres.count), used_of(node, gres)};
    const bool better = !best || power(devices) > power(*best);
    if (best) others = text((better ? *best : devices).count, " ", (better ? *best : devices).type);
    if (better) best = devices;
  }
  if (!best) return std::nullopt;
  if (!others.empty())
    note(text("nodes with ", best->count, " ", best->type, " have ", others, ", too: left out, a job takes one type of a node"), p.name);
  best->all = alone && others.empty();
  const int cpus = slurm::cpus_for(p, node);
  int share = std::max(cpus / best->count, 1);
  if (share > node.threads) share -= share % node.threads;
  best->cpus_each = settings_.cpus_per_task > 0 ? settings_.cpus_per_task : std::min(share, p.gpu_cpus.value_or(share));
  return best;
}

std::optional<NodeDevices> SlurmDevices::cpus_of(const slurm::SlurmNode& node, const std::string& partition) {
  for (const auto& [key, type] : said_) {
    const bool here = key == upper("partition:" + partition) ||
                      std::ranges::any_of(node.features, [&](const auto& feature) { return key == upper("feature:" + feature); });
    if (!here || !names_.is_cpu(type)) continue;
    const int each = settings_.cpus_per_task > 0 ? settings_.cpus_per_task : std::max(threads_in(type), 1);
    return NodeDevices{type, "", "", node.cpus / each, (node.cpus - node.idle_cpus + each - 1) / each, each};
  }
  return std::nullopt;
}

std::optional<NodeDevices> SlurmDevices::of(const slurm::SlurmNode& node, const slurm::Partition& p) {
  if (auto gpus = gpus_of(node, p)) return gpus;
  return cpus_of(node, p.name);
}

}  // namespace flotilla::app
