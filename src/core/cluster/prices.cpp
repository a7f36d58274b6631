#include <algorithm>

#include "flotilla/cluster/cluster.hpp"

namespace flotilla::cluster {
namespace {

double price(const Profile& profile, const std::string& type, const std::string& zone, double ZonePrice::*there,
             double DeviceType::*anywhere) {
  for (const ZonePrice& price : profile.zone_prices)
    if (price.device_type == type && price.zone == zone && price.*there > 0) return price.*there;
  const auto* known = find_type(profile, type);
  return known == nullptr ? 0 : known->*anywhere;
}

}  // namespace

double usd_per_hour(const Profile& profile, const std::string& type, const std::string& zone) {
  return price(profile, type, zone, &ZonePrice::usd_per_hour, &DeviceType::usd_per_hour);
}

double billing_weight(const Profile& profile, const std::string& type, const std::string& zone) {
  return price(profile, type, zone, &ZonePrice::billing_weight, &DeviceType::billing_weight);
}

ZonePrice& zone_price(Profile& profile, const std::string& type, const std::string& zone) {
  const auto found =
      std::ranges::find_if(profile.zone_prices, [&](const ZonePrice& price) { return price.device_type == type && price.zone == zone; });
  return found != profile.zone_prices.end() ? *found : profile.zone_prices.emplace_back(ZonePrice{type, zone});
}

}  // namespace flotilla::cluster
