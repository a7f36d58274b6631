#include "flotilla/cluster/relatives.hpp"

#include <cmath>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"

namespace flotilla::cluster {
namespace {

const ProductFigures& half_of(const CatalogueEntry& e) { return e.bf16.peak.known() ? e.bf16 : e.fp16; }

/// Figures that nobody measured of the type say so in their source: estimates, and what is taken over from another type.
bool is_estimate(const Figure& figure) {
  return !figure.known() || figure.source.starts_with("Estimate") || figure.source.starts_with("as of ");
}

double distance(const CatalogueEntry& a, const CatalogueEntry& b) {
  return std::abs(std::log(half_of(a).peak.value / half_of(b).peak.value)) +
         std::abs(std::log(a.memory_bandwidth.value / b.memory_bandwidth.value));
}

bool take_same_operands(const CatalogueEntry& a, const CatalogueEntry& b) {
  for (const auto operands : {&CatalogueEntry::tf32, &CatalogueEntry::bf16, &CatalogueEntry::fp8, &CatalogueEntry::fp4})
    if ((a.*operands).peak.known() != (b.*operands).peak.known()) return false;
  return true;
}

void take_share(ProductFigures& to, const ProductFigures& from) {
  if (!to.peak.known()) return;
  if (from.matrix.known()) to.matrix = from.matrix;
  if (from.half.known()) to.half = from.half;
  to.relative_error = {unchecked_error, "Estimate: no run has checked the type"};
}

}  // namespace

bool same_family(const CatalogueEntry& a, const CatalogueEntry& b) {
  constexpr double nearly = 0.1;  // power limits of one generation differ by so much
  const ProductFigures &one = half_of(a), &other = half_of(b);
  if (a.kind != b.kind || a.vendor != b.vendor || !take_same_operands(a, b) || one.half.value != other.half.value) return false;
  return one.matrix.value == other.matrix.value || std::abs(std::log(one.matrix.value / other.matrix.value)) < nearly;
}

std::string family_of(const CatalogueEntry& entry, const Catalogue& catalogue) {
  // Of its members, one that runs have checked speaks for the family.
  const CatalogueEntry* first = nullptr;
  for (const auto& other : catalogue) {
    if (!same_family(entry, other)) continue;
    if (!is_estimate(half_of(other).relative_error)) return other.name;
    if (first == nullptr) first = &other;
  }
  return first != nullptr ? first->name : entry.name;
}

const CatalogueEntry* nearest_relative(const CatalogueEntry& entry, const Catalogue& catalogue) {
  const CatalogueEntry* nearest = nullptr;
  for (const auto& other : catalogue) {
    if (other.kind != entry.kind || same_family(entry, other) || half_of(other).peak.value == half_of(entry).peak.value) continue;
    if (is_estimate(half_of(other).relative_error)) continue;
    if (nearest == nullptr || distance(entry, other) < distance(entry, *nearest)) nearest = &other;
  }
  return nearest;
}

CatalogueEntry as_new(const CatalogueEntry& entry, const Catalogue& catalogue) {
  const auto* relative = nearest_relative(entry, catalogue);
  FLOTILLA_REQUIRE(relative != nullptr, ErrorKind::unavailable, "the hardware catalogue has no relative of ", in_quotes(entry.name),
                   " that was measured");
  CatalogueEntry fresh = entry;
  const ProductFigures& half = half_of(*relative);
  take_share(fresh.fp32, relative->fp32);
  take_share(fresh.tf32, relative->tf32.peak.known() ? relative->tf32 : relative->fp32);
  take_share(fresh.bf16, half);
  take_share(fresh.fp16, half);
  take_share(fresh.fp8, relative->fp8.peak.known() ? relative->fp8 : half);
  take_share(fresh.fp4, relative->fp4.peak.known() ? relative->fp4 : half);
  fresh.memory_share = relative->memory_share;
  fresh.overlap = relative->overlap;
  fresh.launch = relative->launch;
  fresh.portable_share = relative->portable_share;
  fresh.exponential_share = relative->exponential_share;
  fresh.context = relative->context;
  fresh.node_share = relative->node_share;
  fresh.node_latency = relative->node_latency;
  if (relative->host_link_share.known()) fresh.host_link_share = relative->host_link_share;
  fresh.network_share = relative->network_share;
  fresh.network_latency = relative->network_latency;
  return fresh;
}

Catalogue as_new(const Catalogue& catalogue) {
  Catalogue all;
  for (const auto& entry : catalogue) all.push_back(nearest_relative(entry, catalogue) != nullptr ? as_new(entry, catalogue) : entry);
  return all;
}

}  // namespace flotilla::cluster
