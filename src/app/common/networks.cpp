#include "app/common/networks.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "app/common/refuse.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/nearest.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/cluster/catalogue.hpp"

namespace flotilla::app {
namespace {

constexpr std::size_t pairs_in_a_warning = 3;

/// What a word says.
struct StatedLink {
  std::string from, to;
  BytesPerSecond bandwidth;
  Seconds latency;

  bool is_inside() const { return from == to; }
};

std::vector<std::string> zones_of(const std::vector<cluster::TypeInZone>& places) {
  std::set<std::string> zones;
  for (const auto& place : places)
    if (!place.zone.empty()) zones.insert(place.zone);
  return {zones.begin(), zones.end()};
}

std::string listed(const std::vector<std::string>& words) {
  std::string all;
  for (const auto& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

/// The words of one option.
class NetworkReader {
 public:
  NetworkReader(const OptionWords& option, const std::vector<cluster::TypeInZone>& places, const char* form, const char* example)
      : option_{option.setting}, places_{places}, zones_{zones_of(places)}, form_{form}, example_{example} {}

  [[noreturn]] void refuse(const std::string& word, const std::string& what) const {
    const bool typed = option_.origin == options::Origin::command_line;
    const auto option = "--" + option_.name.substr(option_.name.rfind('.') + 1) + " ";
    app::refuse(option_, word, text(what, "; write for example ", typed ? option : "", example_));
  }

  [[noreturn]] void refuse_form(const std::string& word) const { refuse(word, text("expected ", form_)); }

  BytesPerSecond bandwidth(const std::string& word, const std::string& quantity) const {
    try {
      const auto rate = parse_bytes_per_second(quantity);
      if (rate.value > 0 && std::isfinite(rate.value)) return rate;
    } catch (const Error&) {
    }
    refuse(word, text("expected a bandwidth above 0 with its unit behind the '=', got '", quantity.substr(0, 40), "'"));
  }

  Seconds latency(const std::string& word, const std::string& quantity) const {
    try {
      const auto time = parse_seconds(quantity);
      if (time.value >= 0 && std::isfinite(time.value)) return time;
    } catch (const Error&) {
    }
    refuse(word, text("expected a latency with its unit behind the ',', got '", quantity.substr(0, 40), "'"));
  }

  /// False for a zone that is not there, where a file or the environment says it.
  bool is_there(const std::string& word, const std::string& zone) const {
    if (std::ranges::find(zones_, zone) != zones_.end()) return true;
    if (option_.origin != options::Origin::command_line) return false;
    app::refuse(option_, word,
                zones_.empty() ? "the devices are in one zone without a name; name zones with --pool TYPE@ZONE=COUNT"
                               : text("no devices are in a zone '", zone.substr(0, 60), "'", suggestion(zone, zones_), "; the zones are ",
                                      listed(zones_)));
  }

  /// Where the pool has what a word names, TYPE or TYPE@ZONE; nowhere, where a file or the environment says it.
  std::vector<cluster::TypeInZone> places(const std::string& word, const std::string& named) const {
    std::vector<cluster::TypeInZone> found;
    std::vector<std::string> known;
    for (const auto& place : places_) {
      const auto whole = place.zone.empty() ? place.type : place.type + "@" + place.zone;
      known.push_back(whole);
      if (cluster::folded_name(named) == cluster::folded_name(place.type) || cluster::folded_name(named) == cluster::folded_name(whole))
        found.push_back(place);
    }
    if (!found.empty() || option_.origin != options::Origin::command_line) return found;
    app::refuse(option_, word, text("the pool has no ", in_quotes(named), suggestion(named, known), "; it has ", listed(known)));
  }

 private:
  const options::Setting& option_;
  const std::vector<cluster::TypeInZone>& places_;
  std::vector<std::string> zones_;
  const char *form_, *example_;
};

/// Nothing for a link of a zone that is not there, where a file or the environment says it.
std::optional<StatedLink> read_link(const NetworkReader& reader, const std::string& word) {
  const auto equals = word.rfind('='), colon = word.find(':');
  if (equals == word.npos || colon == word.npos || colon == 0 || colon + 1 >= equals) reader.refuse_form(word);
  StatedLink link{word.substr(0, colon), word.substr(colon + 1, equals - colon - 1), {}, {}};
  const auto comma = std::min(word.find(',', equals), word.size());
  link.bandwidth = reader.bandwidth(word, word.substr(equals + 1, comma - equals - 1));
  const auto usual =
      link.is_inside() ? cluster::zone_latency : cluster::assumed_link(cluster::distance_between(link.from, link.to)).latency;
  link.latency = comma < word.size() ? reader.latency(word, word.substr(comma + 1)) : usual;
  return reader.is_there(word, link.from) && reader.is_there(word, link.to) ? std::optional{link} : std::nullopt;
}

/// Throws where two words say the same.
std::vector<StatedLink> read_links(const OptionWords& links, const std::vector<cluster::TypeInZone>& places) {
  const NetworkReader reader{links, places, "FROM:TO=BANDWIDTH[,LATENCY]", "us-east1-b:us-west1-b=10Gbit/s,20ms"};
  std::vector<StatedLink> stated;
  for (const auto& word : links.words) {
    const auto link = read_link(reader, word);
    if (!link) continue;
    const bool twice = std::ranges::any_of(stated, [&](const auto& other) { return other.from == link->from && other.to == link->to; });
    if (twice) refuse(links.setting, word, text("the link from ", link->from, " to ", link->to, " is given twice; keep one"));
    stated.push_back(*link);
  }
  return stated;
}

bool has_link_inside(const std::vector<StatedLink>& links, const std::string& zone) {
  return std::ranges::any_of(links, [&](const auto& link) { return link.is_inside() && link.from == zone; });
}

/// "2x200Gbit/s"; one card where there is no number.
void read_cards(const NetworkReader& reader, const std::string& word, const std::string& quantity, cluster::NodeNetwork& node) {
  const auto digits = quantity.find_first_not_of("0123456789");
  const bool counted = digits != quantity.npos && digits > 0 && quantity[digits] == 'x';
  if (counted && (digits > 3 || (node.cards = std::stoi(quantity.substr(0, digits))) == 0))
    reader.refuse(word, "expected 1 to 999 network cards of a node in front of the 'x'");
  node.card = reader.bandwidth(word, counted ? quantity.substr(digits + 1) : quantity);
}

/// A word that names a zone goes before one that names a type alone.
std::vector<cluster::NodeNetwork> read_nics(const OptionWords& nics, const std::vector<cluster::TypeInZone>& places,
                                            const std::vector<StatedLink>& links) {
  const NetworkReader reader{nics, places, "TYPE[@ZONE]=[CARDSx]BANDWIDTH", "A100-80@gpu=2x200Gbit/s"};
  std::map<cluster::TypeInZone, std::pair<bool, cluster::NodeNetwork>> stated;
  for (const auto& word : nics.words) {
    const auto equals = word.rfind('=');
    if (equals == word.npos || equals == 0) reader.refuse_form(word);
    const std::string named = word.substr(0, equals);
    cluster::NodeNetwork node;
    read_cards(reader, word, word.substr(equals + 1), node);
    for (const auto& place : reader.places(word, named)) {
      const bool of_zone = cluster::folded_name(named) != cluster::folded_name(place.type);
      if (of_zone && has_link_inside(links, place.zone))
        refuse(nics.setting, word, text("--link ", place.zone, ":", place.zone, " says what a node gets there; keep one of them"));
      node.type = place.type, node.zone = place.zone;
      const auto [known, fresh] = stated.try_emplace(place, of_zone, node);
      if (!fresh && known->second.first == of_zone) refuse(nics.setting, word, text("the nodes of ", named, " are given twice; keep one"));
      if (of_zone) known->second = {of_zone, node};
    }
  }
  std::vector<cluster::NodeNetwork> nodes;
  for (const auto& [place, one] : stated) nodes.push_back(one.second);
  return nodes;
}

/// "2:1", "2", "1.5:1".
double read_ratio(const NetworkReader& reader, const std::string& word, std::string ratio) {
  if (ratio.ends_with(":1")) ratio.resize(ratio.size() - 2);
  double value = 0;
  const auto [rest, failed] = std::from_chars(ratio.data(), ratio.data() + ratio.size(), value);
  if (failed != std::errc{} || rest != ratio.data() + ratio.size() || !(value >= 1 && value <= 100))
    reader.refuse(word, text("expected a ratio from 1:1 to 100:1, got '", ratio.substr(0, 40), "'"));
  return value;
}

std::map<std::string, double> read_trees(const OptionWords& trees, const std::vector<cluster::TypeInZone>& places,
                                         const std::vector<StatedLink>& links) {
  const NetworkReader reader{trees, places, "[ZONE=]RATIO", "gpu=2:1"};
  std::map<std::string, double> of_all, own;
  for (const auto& word : trees.words) {
    const auto equals = word.rfind('=');
    const double ratio = read_ratio(reader, word, equals == word.npos ? word : word.substr(equals + 1));
    const std::string zone = equals == word.npos ? "" : word.substr(0, equals);
    if (equals != word.npos && !reader.is_there(word, zone)) continue;
    if (equals != word.npos && has_link_inside(links, zone))
      refuse(trees.setting, word, text("--link ", zone, ":", zone, " says what a node gets there, with the tree; keep one of them"));
    if (equals == word.npos)
      for (const auto& place : places) of_all[place.zone] = ratio;
    else if (!own.emplace(zone, ratio).second)
      refuse(trees.setting, word, text("the zone ", zone, " is given twice; keep one"));
  }
  own.insert(of_all.begin(), of_all.end());
  return own;
}

std::string rate_in_words(BytesPerSecond rate) { return formatted("%.4gGbit/s", rate.value * 8 / 1e9); }
std::string latency_in_words(Seconds latency) { return formatted("%.4gms", latency.value * 1e3); }

void warn_of(const std::vector<cluster::AssumedLink>& assumed) {
  if (assumed.empty()) return;
  std::string pairs;
  for (std::size_t i = 0; i < std::min(assumed.size(), pairs_in_a_warning); ++i)
    pairs += text(i == 0 ? "" : ", ", link_in_words(assumed[i]), " (", cluster::in_words(assumed[i].distance), ")");
  if (assumed.size() > pairs_in_a_warning) pairs += text(" and ", assumed.size() - pairs_in_a_warning, " more");
  log::warning("links between zones were not measured and are assumed: ", pairs,
               "; say what a node gets with --link FROM:TO=BANDWIDTH,LATENCY");
}

}  // namespace

std::vector<cluster::TypeInZone> places_of(const search::Pool& pool) {
  std::vector<cluster::TypeInZone> places;
  for (const auto& entry : pool) places.push_back({entry.device_type, entry.zone});
  return places;
}

std::vector<cluster::TypeInZone> places_of(const plan::Plan& plan) {
  std::set<cluster::TypeInZone> places;
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas) places.insert({replica.device_type, replica.zone});
  return {places.begin(), places.end()};
}

std::string link_in_words(const cluster::AssumedLink& link) {
  return text(link.from, ":", link.to, "=", rate_in_words(link.bandwidth), ",", latency_in_words(link.latency));
}

std::string network_in_words(const cluster::NodeNetwork& node) {
  return text(node.cards, " x ", rate_in_words(node.card), " for a node of ", node.type, node.zone.empty() ? "" : " @ ", node.zone);
}

AssumedNetworks join_nodes(cluster::Profile& profile, const cluster::Profile& measured, const std::vector<cluster::TypeInZone>& places,
                           const NetworkWords& words, bool one_cluster) {
  const auto links = read_links(words.links, places);
  const cluster::StatedNetworks stated{read_nics(words.nics, places, links), read_trees(words.trees, places, links)};
  for (const auto& link : links)
    if (!link.is_inside()) cluster::forget_wide_links(profile, link.from, link.to);
  for (const auto& link : links)
    if (link.is_inside())
      cluster::set_zone_link(profile, link.from, link.bandwidth, link.latency);
    else
      cluster::set_wide_link(profile, link.from, link.to, link.bandwidth, link.latency);
  AssumedNetworks assumed;
  assumed.nodes = cluster::assume_node_networks(profile, measured, places, stated.nodes);
  cluster::set_node_networks(profile, places, stated);
  assumed.links = cluster::assume_wide_links(profile, measured, places, one_cluster);
  if (one_cluster) assumed.links.clear();
  warn_of(assumed.links);
  return assumed;
}

}  // namespace flotilla::app
