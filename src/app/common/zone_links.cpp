#include "app/common/zone_links.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "app/common/refuse.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/nearest.hpp"
#include "flotilla/base/text.hpp"

namespace flotilla::app {
namespace {

constexpr const char* link_example = "us-east1-b:us-west1-b=10Gbit/s,20ms";
constexpr std::size_t pairs_in_a_warning = 3;

/// What a word says.
struct StatedLink {
  std::string from, to;
  BytesPerSecond bandwidth;
  Seconds latency;
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

class LinkReader {
 public:
  LinkReader(const options::Setting& option, std::vector<std::string> zones) : option_{option}, zones_{std::move(zones)} {}

  /// Nothing for a link of a zone that is not there, where a file or the environment says it.
  std::optional<StatedLink> read(const std::string& word) const {
    const auto equals = word.rfind('='), colon = word.find(':');
    if (equals == word.npos || colon == word.npos || colon == 0 || colon + 1 >= equals)
      refuse(word, "expected FROM:TO=BANDWIDTH[,LATENCY]");
    StatedLink link{word.substr(0, colon), word.substr(colon + 1, equals - colon - 1), {}, {}};
    if (link.from == link.to) refuse(word, "expected two zones; links inside a zone are the profile's, or the hardware catalogue's");
    const auto comma = std::min(word.find(',', equals), word.size());
    link.bandwidth = bandwidth(word, word.substr(equals + 1, comma - equals - 1));
    const auto distance = cluster::distance_between(link.from, link.to);
    link.latency = comma < word.size() ? latency(word, word.substr(comma + 1)) : cluster::assumed_link(distance).latency;
    return is_there(word, link.from) && is_there(word, link.to) ? std::optional{link} : std::nullopt;
  }

  [[noreturn]] void refuse(const std::string& word, const std::string& what) const {
    const bool typed = option_.origin == options::Origin::command_line;
    app::refuse(option_, word, text(what, "; write for example ", typed ? "--link " : "", link_example));
  }

 private:
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

  bool is_there(const std::string& word, const std::string& zone) const {
    if (std::ranges::find(zones_, zone) != zones_.end()) return true;
    if (option_.origin != options::Origin::command_line) return false;
    app::refuse(option_, word,
                zones_.empty() ? "the devices are in one zone without a name; name zones with --pool TYPE@ZONE=COUNT"
                               : text("no devices are in a zone '", zone.substr(0, 60), "'", suggestion(zone, zones_), "; the zones are ",
                                      listed(zones_)));
  }

  const options::Setting& option_;
  std::vector<std::string> zones_;
};

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

void state_links(cluster::Profile& profile, const std::vector<cluster::TypeInZone>& places, const LinkWords& links) {
  const LinkReader reader{links.setting, zones_of(places)};
  std::vector<StatedLink> stated;
  for (const auto& word : links.words) {
    const auto link = reader.read(word);
    if (!link) continue;
    const bool twice = std::ranges::any_of(stated, [&](const auto& other) { return other.from == link->from && other.to == link->to; });
    if (twice) refuse(links.setting, word, text("the link from ", link->from, " to ", link->to, " is given twice; keep one"));
    stated.push_back(*link);
  }
  for (const auto& link : stated) cluster::forget_wide_links(profile, link.from, link.to);
  for (const auto& link : stated) cluster::set_wide_link(profile, link.from, link.to, link.bandwidth, link.latency);
}

std::vector<cluster::AssumedLink> join_zones(cluster::Profile& profile, const cluster::Profile& measured,
                                             const std::vector<cluster::TypeInZone>& places, const LinkWords& links) {
  state_links(profile, places, links);
  auto assumed = cluster::assume_wide_links(profile, measured, places);
  warn_of(assumed);
  return assumed;
}

}  // namespace flotilla::app
