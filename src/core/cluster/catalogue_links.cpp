#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/cluster/catalogue.hpp"
#include "link_side.hpp"

namespace flotilla::cluster {
namespace {

LinkSide inside_node(const CatalogueEntry& e) {
  return {e.node_pair_rate.value * e.node_share.value, e.node_latency.value, e.link_error.value,
          std::max(1, static_cast<int>(e.devices_per_node.value))};
}

LinkSide on_network(const CatalogueEntry& e) {
  return {e.network_card_rate.value * e.network_share.value, e.network_latency.value, e.link_error.value,
          std::max(1, static_cast<int>(e.network_cards.value))};
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
