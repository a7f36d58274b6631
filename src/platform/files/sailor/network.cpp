#include "profile_sections.hpp"
#include "sections.hpp"

namespace flotilla::files {
namespace {

constexpr double bytes_per_gb = 1e9;
constexpr double steepest_target = 1e9;

/// [[a, b, c], most bytes per second]
cluster::LinkFit fit_in(const Json& place, cluster::LinkFit fit) {
  const auto parts = place.items();
  const auto coefficients = parts.empty() ? std::vector<Json>{} : parts[0].items();
  if (parts.size() != 2 || coefficients.size() != 3) place.refuse("expected [[a, b, c], most bytes per second]");
  double* const targets[] = {&fit.a, &fit.b, &fit.c};
  for (std::size_t i = 0; i < 3; ++i) *targets[i] = coefficients[i].as_double(-steepest_target, steepest_target);
  fit.most = {parts[1].as_double(slowest_rate)};
  return fit;
}

/// {zone: {type: {count: ...}}}: calls each(zone, type, count, what stands there).
template <class Each>
void for_each_end(SailorLibrary& library, const Json& zones, Each each) {
  for (const std::string& zone : zones.keys()) {
    const Json types = zones.at(zone);
    for (const std::string& type : types.keys()) {
      if (!library.has_type(type)) continue;
      const Json counts = types.at(type);
      for (const std::string& count : counts.keys()) each(zone, type, number_key(counts, count), counts.at(count));
    }
  }
}

}  // namespace

void read_sailor_network(SailorLibrary& library) {
  auto& fits = library.profile().link_fits;
  if (const auto document = library.read("network/multizone_bandwidths_het.json", "link fits between nodes"))
    for_each_end(library, *document, [&](const std::string& from_zone, const std::string& from_type, int from_count, const Json& ends) {
      for_each_end(library, ends, [&](const std::string& to_zone, const std::string& to_type, int to_count, const Json& place) {
        cluster::LinkFit fit;
        fit.from_zone = from_zone, fit.from_type = from_type, fit.from_count = from_count;
        fit.to_zone = to_zone, fit.to_type = to_type, fit.to_count = to_count;
        fits.push_back(fit_in(place, fit));
      });
    });
  if (const auto document = library.read("network/intra_node_bandwidths.json", "link fits inside a node"))
    for (const std::string& type : document->keys()) {
      if (!library.has_type(type)) continue;
      const Json counts = document->at(type);
      for (const std::string& count : counts.keys()) {
        cluster::LinkFit fit;
        fit.from_type = fit.to_type = type;
        fit.from_count = fit.to_count = number_key(counts, count);
        fits.push_back(fit_in(counts.at(count), fit));
      }
    }
}

void read_sailor_prices(SailorLibrary& library) {
  const auto document = library.read("prices/egress_usd_per_gb.json", "prices of traffic between zones");
  if (!document) return;
  for (const std::string& from : document->keys()) {
    const Json row = document->at(from);
    for (const std::string& to : row.keys())
      library.profile().egress_prices.push_back({from, to, row.at(to).as_double(0, bytes_per_gb) / bytes_per_gb});
  }
}

}  // namespace flotilla::files
