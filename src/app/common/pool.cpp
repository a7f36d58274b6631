#include "app/common/pool.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>

#include "app/common/device_names.hpp"
#include "app/common/refuse.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/nearest.hpp"
#include "flotilla/search/planner.hpp"

namespace flotilla::app {
namespace {

constexpr int most_per_node = 4096;
const char* const pool_example = "A100-40@us-central1-a=32/4";

/// A word taken apart; the type is what stands before the '=' until somebody knows where its zone begins.
struct Word {
  std::string name;
  int count = 0, per_node = 0;
};

class PoolReader {
 public:
  PoolReader(const options::Setting& option, const cluster::Profile& library, const cluster::Catalogue& catalogue)
      : option_{option}, names_{library, catalogue} {}

  search::PoolEntry entry(const std::string& text_of_entry) {
    word_ = text_of_entry;
    const Word word = split();
    auto entry = place_of(word.name);
    entry.count = word.count;
    entry.per_node = word.per_node > 0 ? word.per_node : names_.per_node(entry.device_type);
    return entry;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { app::refuse(option_, word_, what); }

  Word split() const {
    const auto equals = word_.rfind('=');
    if (equals == std::string::npos || equals == 0) refuse(text("expected TYPE[@ZONE]=COUNT[/PER_NODE]; write for example ", pool_example));
    Word word{word_.substr(0, equals)};
    const std::string counts = word_.substr(equals + 1);
    if (const auto at = counts.find('@'); at != std::string::npos && word.name.find('@') == std::string::npos)
      refuse(text("the zone stands before the '='; write ", word.name.substr(0, 60), counts.substr(at, 60), "=",
                  counts.substr(0, at).substr(0, 40)));
    const auto slash = std::min(counts.find('/'), counts.size());
    word.count = number(counts.substr(0, slash), "devices behind the '='", most_devices);
    if (slash < counts.size()) word.per_node = number(counts.substr(slash + 1), "devices in a node behind the '/'", most_per_node);
    return word;
  }

  int number(const std::string& digits, const char* of_what, int most) const {
    int value = 0;
    const char* end = digits.data() + digits.size();
    const auto [rest, error] = std::from_chars(digits.data(), end, value);
    const bool in_range = error == std::errc{} && rest == end && value >= 1 && value <= most;
    if (!in_range) refuse(text("expected the number of ", of_what, ", from 1 to ", most, ", got ", in_quotes(digits)));
    return value;
  }

  /// Names of CPUs may hold an '@' of their own: the last one that leaves a known type begins the zone.
  search::PoolEntry place_of(const std::string& name) {
    if (const auto type = names_.type_called(name); !type.empty()) return {type, "", 0, 0};
    for (auto at = name.rfind('@'); at != std::string::npos; at = at == 0 ? at : name.rfind('@', at - 1)) {
      const auto type = names_.type_called(name.substr(0, at));
      if (type.empty() && at > 0) continue;
      if (at == 0) break;
      if (at + 1 == name.size()) refuse("expected a zone behind the '@'; leave both out where there is one zone");
      return {type, name.substr(at + 1), 0, 0};
    }
    if (name.find('=') != name.npos)
      refuse(text("expected one type, one '=' and one number; every type and zone takes an entry of its own, such as ", pool_example));
    const auto asked = name.substr(0, name.find('@'));
    refuse(text("neither the profiles nor the hardware catalogue know a device type ", in_quotes(asked), names_.meant(asked), "; ",
                names_.where_listed()));
  }

  const options::Setting& option_;
  DeviceNames names_;
  std::string word_;
};

std::string nearest_in_words(const std::string& zone, const std::vector<std::string>& known) {
  const auto meant = nearest(zone, known);
  return meant.empty() ? "" : text(" (did you mean ", in_quotes(meant), "?)");
}

std::set<std::string> zones_of(const cluster::Profile& library) {
  std::set<std::string> zones;
  for (const auto& fit : library.link_fits) zones.insert({fit.from_zone, fit.to_zone});
  for (const auto& device : library.devices) zones.insert(device.zone);
  zones.erase("");
  return zones;
}

}  // namespace

search::Pool read_pool(const std::vector<std::string>& words, const options::Setting& option, const cluster::Profile& library,
                       const cluster::Catalogue& catalogue) {
  PoolReader reader{option, library, catalogue};
  search::Pool pool;
  std::int64_t devices = 0;
  for (const auto& word : words) {
    const auto entry = reader.entry(word);
    devices += entry.count;
    if (devices > most_devices)
      refuse(option, word, text("with it the pool has ", devices, " devices; expected ", most_devices, " at most"));
    const auto same = std::ranges::find_if(pool, [&](const auto& other) {
      return std::tie(other.device_type, other.zone, other.per_node) == std::tie(entry.device_type, entry.zone, entry.per_node);
    });
    if (same == pool.end())
      pool.push_back(entry);
    else
      same->count += entry.count;
  }
  return pool;
}

cluster::Profile without_devices(cluster::Profile library, const cluster::Catalogue& catalogue, const search::Pool& pool) {
  std::set<std::string> types;
  for (const auto& entry : pool) types.insert(entry.device_type);
  library.devices.clear();
  auto profile = cluster::complete_from_catalogue(std::move(library), catalogue, {types.begin(), types.end()});
  return search::with_node_sizes(std::move(profile), pool);
}

void require_within(const search::Pool& pool, const plan::Plan& plan, const std::string& source) {
  std::map<cluster::TypeInZone, std::int64_t> offered;
  for (const auto& entry : pool) offered[{entry.device_type, entry.zone}] += entry.count;
  for (const auto& [place, devices] : devices_by_place(plan))
    FLOTILLA_REQUIRE(devices <= offered[place], ErrorKind::no_plan, source, ": the plan takes ", devices, " ",
                     place_in_words(place.type, place.zone), ", the pool has ", offered[place]);
}

std::map<cluster::TypeInZone, std::int64_t> devices_by_place(const plan::Plan& plan) {
  std::map<cluster::TypeInZone, std::int64_t> devices;
  for (int s = 0; s < plan::own_stages(plan); ++s)
    for (const auto& replica : plan.stages[static_cast<std::size_t>(s)].replicas)
      devices[{replica.device_type, replica.zone}] += replica.tensor_parallel;
  return devices;
}

std::string place_in_words(const std::string& type, const std::string& zone) { return zone.empty() ? type : text(type, " @ ", zone); }

std::string unknown_zones(const search::Pool& pool, const cluster::Profile& library) {
  const auto zones = zones_of(library);
  if (zones.empty()) return "";
  const std::vector<std::string> known{zones.begin(), zones.end()};
  std::set<std::string> said;
  std::string words;
  for (const auto& entry : pool)
    if (!entry.zone.empty() && !zones.contains(entry.zone) && said.insert(entry.zone).second)
      words += text(words.empty() ? "" : ", ", in_quotes(entry.zone), nearest_in_words(entry.zone, known));
  return words;
}

}  // namespace flotilla::app
