#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/cluster/catalogue.hpp"

namespace flotilla::cluster {
namespace {

/// One end of a link: what a device or a node of a type can send.
struct LinkSide {
  double rate, latency, error;
  int lanes;
};

LinkSide inside_node(const CatalogueEntry& e) {
  return {e.node_pair_rate.value * e.node_share.value, e.node_latency.value, e.link_error.value,
          std::max(1, static_cast<int>(e.devices_per_node.value))};
}

LinkSide on_network(const CatalogueEntry& e) {
  return {e.network_card_rate.value * e.network_share.value, e.network_latency.value, e.link_error.value,
          std::max(1, static_cast<int>(e.network_cards.value))};
}

/// The slower end decides the rate, the later one the latency; messages find as many lanes as the end that has fewer.
LinkSide both(const LinkSide& a, const LinkSide& b) {
  return {std::min(a.rate, b.rate), std::max(a.latency, b.latency), std::max(a.error, b.error), std::min(a.lanes, b.lanes)};
}

Link link_of(LinkLevel level, const std::string& from, const std::string& to, const LinkSide& end) {
  return {level, from, to, {{{0}, {end.latency}, {end.rate}}}, end.error, end.lanes};
}

const CatalogueEntry& entry_of(const Catalogue& catalogue, const std::string& type) {
  const auto* entry = find(catalogue, type);
  FLOTILLA_REQUIRE(entry, ErrorKind::bad_input, "the hardware catalogue has no device type ", in_quotes(type));
  FLOTILLA_REQUIRE(entry->node_pair_rate.known() && entry->network_card_rate.known(), ErrorKind::bad_input,
                   "the hardware catalogue says of ", in_quotes(type),
                   " neither node_pair_rate nor network_card_rate; a site's own catalogue may (docs/formats/catalogue.md)");
  return *entry;
}

}  // namespace

std::vector<Link> catalogue_links(const Catalogue& catalogue, const std::vector<std::string>& types) {
  std::vector<Link> links;
  for (auto one = types.begin(); one != types.end(); ++one) {
    if (std::find(types.begin(), one, *one) != one) continue;
    const auto& entry = entry_of(catalogue, *one);
    links.push_back(link_of(LinkLevel::node, *one, *one, inside_node(entry)));
    for (auto other = one; other != types.end(); ++other) {
      if (other != one && std::find(types.begin(), other, *other) != other) continue;
      LinkSide end = both(on_network(entry), on_network(entry_of(catalogue, *other)));
      links.push_back(link_of(LinkLevel::zone, *one, *other, end));
      end.latency = wide_latency.value;
      links.push_back(link_of(LinkLevel::wide, *one, *other, end));
    }
  }
  return links;
}

}  // namespace flotilla::cluster
