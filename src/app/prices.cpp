#include "app/prices.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "flotilla/base/error.hpp"
#include "flotilla/base/nearest.hpp"

namespace flotilla::app {
namespace {

/// What stands before the '=' and the number between it and the unit.
struct Priced {
  std::string name;
  double value = 0;
};

Priced read(const std::string& word, const char* option, std::string_view unit, const std::string& example) {
  const auto refuse = [&](const std::string& what) {
    throw Error{ErrorKind::usage, text("--", option, " ", word.substr(0, 80), ": ", what, "; write for example --", option, " ", example)};
  };
  const auto equals = word.rfind('=');
  if (equals == std::string::npos || equals == 0) refuse("expected a name, '=' and a price");
  Priced priced{word.substr(0, equals)};
  const char *begin = word.data() + equals + 1, *end = word.data() + word.size();
  const auto [rest, failed] = std::from_chars(begin, end, priced.value);
  if (failed != std::errc{} || !std::isfinite(priced.value) || priced.value < 0) refuse("expected a number of at least 0 behind the '='");
  const std::string_view given{rest, static_cast<std::size_t>(end - rest)};
  if (given != unit) refuse(text("expected the unit ", unit, given.empty() ? ", got none" : text(", got '", given, "'")));
  return priced;
}

cluster::DeviceType& type_called(cluster::Profile& profile, const std::string& name, const char* option) {
  const auto found = std::ranges::find(profile.device_types, name, &cluster::DeviceType::name);
  if (found != profile.device_types.end()) return *found;
  std::vector<std::string> names;
  std::string listed;
  for (const auto& type : profile.device_types) {
    names.push_back(type.name);
    listed += (listed.empty() ? "" : ", ") + type.name;
  }
  throw Error{ErrorKind::usage, text("--", option, ": no device type is called '", name, "'", suggestion(name, names), "; there are ",
                                     listed.empty() ? "none" : listed)};
}

void set_egress(cluster::Profile& profile, const std::string& word) {
  constexpr double bytes_in_a_gigabyte = 1e9;
  const auto priced = read(word, "egress", "USD/GB", "zone-a:zone-b=0.02USD/GB");
  const auto colon = priced.name.find(':');
  FLOTILLA_REQUIRE(colon != std::string::npos, ErrorKind::usage, "--egress ", word,
                   ": expected two zones with ':' between them; write for example --egress zone-a:zone-b=0.02USD/GB");
  cluster::EgressPrice price{priced.name.substr(0, colon), priced.name.substr(colon + 1), priced.value / bytes_in_a_gigabyte};
  std::erase_if(profile.egress_prices, [&](const auto& p) { return p.from_zone == price.from_zone && p.to_zone == price.to_zone; });
  profile.egress_prices.push_back(std::move(price));
}

}  // namespace

cluster::Profile with_prices(cluster::Profile profile, const Prices& prices) {
  for (const auto& word : prices.devices) {
    const auto priced = read(word, "price", "USD/h", "A100-40=2.50USD/h");
    type_called(profile, priced.name, "price").usd_per_hour = priced.value;
  }
  for (const auto& word : prices.billing) {
    const auto priced = read(word, "billing", "units/h", "A100-40=16units/h");
    type_called(profile, priced.name, "billing").billing_weight = priced.value;
  }
  for (const auto& word : prices.egress) set_egress(profile, word);
  return profile;
}

}  // namespace flotilla::app
