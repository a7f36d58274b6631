#include "app/common/prices.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "app/common/refuse.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/nearest.hpp"

namespace flotilla::app {
namespace {

/// What stands before the '=' and the number between it and the unit.
struct Priced {
  std::string name;
  double value = 0;
};

/// Reads words of one option.
class PriceReader {
 public:
  PriceReader(const options::Setting& option, std::string_view unit, const char* example)
      : option_{option}, unit_{unit}, example_{example} {}

  Priced read(const std::string& word) const {
    const auto equals = word.rfind('=');
    if (equals == std::string::npos || equals == 0) refuse(word, "expected a name, '=' and a price");
    Priced priced{word.substr(0, equals)};
    const char *begin = word.data() + equals + 1, *end = word.data() + word.size();
    const auto [rest, failed] = std::from_chars(begin, end, priced.value);
    if (failed != std::errc{} || !std::isfinite(priced.value) || priced.value < 0)
      refuse(word, "expected a number of at least 0 behind the '='");
    const std::string_view given{rest, static_cast<std::size_t>(end - rest)};
    if (given != unit_) refuse(word, text("expected the unit ", unit_, given.empty() ? ", got none" : text(", got ", in_quotes(given))));
    return priced;
  }

  [[noreturn]] void refuse(const std::string& word, const std::string& what) const {
    const bool typed = option_.origin == options::Origin::command_line;
    app::refuse(option_, word, text(what, "; write for example ", typed ? text("--", option_.alias, " ") : "", example_));
  }

 private:
  const options::Setting& option_;
  std::string_view unit_;
  const char* example_;
};

/// The profile's type of that name, however it is spelled; nullptr where only the catalogue knows it. Multiplying in TF32 makes another
/// type of a device: those are told apart by their spelling alone.
cluster::DeviceType* type_called(cluster::Profile& profile, const cluster::Catalogue& catalogue, const std::string& name,
                                 const options::Setting& option, const std::string& word) {
  for (auto& type : profile.device_types)
    if (same_word(type.name, name)) return &type;
  const auto* entry = cluster::find(catalogue, name);
  std::vector<std::string> names;
  for (auto& type : profile.device_types) {
    const bool plain = name.find('+') == name.npos && type.name.find('+') == type.name.npos;
    if (entry != nullptr && plain && cluster::find(catalogue, type.name) == entry) return &type;
    names.push_back(type.name);
  }
  if (entry != nullptr) return nullptr;
  std::string listed;
  for (const auto& type : names) listed += (listed.empty() ? "" : ", ") + type;
  refuse(option, word,
         text("no such device type: ", in_quotes(name), suggestion(name, names), "; there are ", listed.empty() ? "none" : listed));
}

cluster::EgressPrice egress(const PriceReader& reader, const std::string& word) {
  constexpr double bytes_in_a_gigabyte = 1e9;
  const auto priced = reader.read(word);
  const auto colon = priced.name.find(':');
  if (colon == std::string::npos) reader.refuse(word, "expected two zones with ':' between them");
  return {priced.name.substr(0, colon), priced.name.substr(colon + 1), priced.value / bytes_in_a_gigabyte};
}

/// A price of devices of a type, in one zone or, with none, anywhere.
struct DevicePrice {
  cluster::DeviceType* type = nullptr;  ///< nullptr: of the catalogue alone
  std::string zone;
  double value = 0;
};

/// Names of CPUs may hold an '@' of their own: a word is a type if somebody knows it whole, else the last '@' begins the zone.
DevicePrice device_price(cluster::Profile& profile, const cluster::Catalogue& catalogue, const PriceReader& reader,
                         const options::Setting& option, const std::string& word) {
  const auto priced = reader.read(word);
  const auto at = priced.name.rfind('@');
  const auto is_type = [&](const cluster::DeviceType& type) { return same_word(type.name, priced.name); };
  if (at == priced.name.npos || std::ranges::any_of(profile.device_types, is_type))
    return {type_called(profile, catalogue, priced.name, option, word), "", priced.value};
  if (at + 1 == priced.name.size()) reader.refuse(word, "expected a zone behind the '@'");
  if (!(priced.value > 0)) reader.refuse(word, "expected a price above 0 in a zone");
  return {type_called(profile, catalogue, priced.name.substr(0, at), option, word), priced.name.substr(at + 1), priced.value};
}

/// Who types a zone means one of those; a list in a file serves other pools, too.
void require_zone(const DevicePrice& price, const std::vector<std::string>& zones, const options::Setting& option,
                  const std::string& word) {
  const bool typed = option.origin == options::Origin::command_line;
  if (!typed || zones.empty() || std::ranges::find(zones, price.zone) != zones.end()) return;
  std::string listed;
  for (const auto& zone : zones) listed += (listed.empty() ? "" : ", ") + (zone.empty() ? "one without a name" : zone);
  refuse(option, word,
         text("no ", price.type->name, " are in a zone '", price.zone.substr(0, 60), "'", suggestion(price.zone, zones), "; the zones are ",
              listed));
}

std::vector<std::string> zones_of(const std::string& type, const std::vector<cluster::TypeInZone>& places) {
  std::vector<std::string> zones;
  for (const auto& place : places)
    if (place.type == type && std::ranges::find(zones, place.zone) == zones.end()) zones.push_back(place.zone);
  return zones;
}

/// What is said of a type replaces all that the profile says of it, its zones' prices included; what is said of a zone goes before.
void set_prices(cluster::Profile& profile, const cluster::Catalogue& catalogue, const std::vector<std::string>& words,
                const options::Setting& option, const PriceReader& reader, const std::vector<cluster::TypeInZone>& places,
                double cluster::DeviceType::*anywhere, double cluster::ZonePrice::*there) {
  std::vector<DevicePrice> in_zones;
  for (const auto& word : words) {
    const auto price = device_price(profile, catalogue, reader, option, word);
    if (price.type == nullptr) continue;
    if (!price.zone.empty()) {
      require_zone(price, zones_of(price.type->name, places), option, word);
      in_zones.push_back(price);
      continue;
    }
    price.type->*anywhere = price.value;
    for (auto& old : profile.zone_prices)
      if (old.device_type == price.type->name) old.*there = 0;
  }
  for (const auto& price : in_zones) cluster::zone_price(profile, price.type->name, price.zone).*there = price.value;
}

}  // namespace

cluster::Profile with_prices(cluster::Profile profile, const Prices& prices, const cluster::Catalogue& catalogue,
                             const std::vector<cluster::TypeInZone>& places) {
  const PriceReader devices{prices.devices_setting, "USD/h", "A100-40=2.50USD/h"};
  set_prices(profile, catalogue, prices.devices, prices.devices_setting, devices, places, &cluster::DeviceType::usd_per_hour,
             &cluster::ZonePrice::usd_per_hour);
  const PriceReader billing{prices.billing_setting, "units/h", "A100-40=16units/h"};
  set_prices(profile, catalogue, prices.billing, prices.billing_setting, billing, places, &cluster::DeviceType::billing_weight,
             &cluster::ZonePrice::billing_weight);
  const PriceReader zones{prices.egress_setting, "USD/GB", "zone-a:zone-b=0.02USD/GB"};
  for (const auto& word : prices.egress) {
    auto price = egress(zones, word);
    std::erase_if(profile.egress_prices, [&](const auto& p) { return p.from_zone == price.from_zone && p.to_zone == price.to_zone; });
    profile.egress_prices.push_back(std::move(price));
  }
  return profile;
}

}  // namespace flotilla::app
