#include "network_of_run.hpp"

#include <algorithm>

namespace flotilla::published {
namespace {

/// "H100-SXM5-96 (500 W, HBM2e)" -> "H100-SXM5-96".
std::string without_remark(const std::string& name) { return name.substr(0, name.find(" (")); }

/// Reports leave the memory out ("A100-SXM4"): the smaller one holds what ran on either.
const cluster::CatalogueEntry* device_of_run(const cluster::Catalogue& catalogue, const std::string& name) {
  if (const auto* known = cluster::find(catalogue, name)) return known;
  const auto may_be = cluster::read_device_word(catalogue, name).may_be;
  const bool one_form = std::ranges::all_of(may_be, [&](const auto* entry) { return entry->form == may_be.front()->form; });
  return may_be.empty() || !one_form ? nullptr : may_be.front();
}

/// Where a node's links reach over several nodes, all of these are one node with all their network cards.
void join_domain(cluster::CatalogueEntry& entry, const Hardware& stated) {
  const double node = entry.devices_per_node.value, domain = stated.domain > 0 ? stated.domain : entry.domain_devices.value;
  if (domain <= node) return;
  entry.network_cards.value *= domain / node;
  entry.devices_per_node.value = domain;
}

/// NCCL knows no way from a GPU to an Omni-Path card but through the host's memory: half of what it reaches on InfiniBand, where the card
/// reads the GPU's.
constexpr double through_host = 0.5;

/// Bus bandwidth of NCCL's all-reduce of 4 GB over Omni-Path on Jean Zay (BigScience's repository, experiments/bandwidth): all devices of
/// 16 nodes with V100 (44 to 57 Gbit/s in longer tests), of 4 nodes with A100. One communicator uses one or two of a node's four cards.
constexpr BytesPerSecond of_v100{54.2e9 / 8}, of_a100{40.5e9 / 8};

}  // namespace

BytesPerSecond communicator_rate(const Run& run) {
  if (!run.hardware.omni_path) return {};
  return run.hardware.device_type.starts_with("V100") ? of_v100 : of_a100;
}

std::optional<cluster::CatalogueEntry> entry_of(const Run& run, const cluster::Catalogue& catalogue) {
  const auto* known = device_of_run(catalogue, without_remark(run.hardware.device_type));
  if (known == nullptr) return std::nullopt;
  cluster::CatalogueEntry entry = *known;
  if (run.hardware.per_node > 0) entry.devices_per_node = {static_cast<double>(run.hardware.per_node), run.id};
  if (run.hardware.node_pair.value > 0) entry.node_pair_rate = {run.hardware.node_pair.value, run.id};
  if (run.hardware.network_cards > 0) entry.network_cards = {static_cast<double>(run.hardware.network_cards), run.id};
  if (run.hardware.network_card.value > 0) entry.network_card_rate = {run.hardware.network_card.value, run.id};
  if (run.hardware.omni_path) entry.network_share = {through_host * entry.network_share.value, run.id};
  join_domain(entry, run.hardware);
  return entry;
}

}  // namespace flotilla::published
