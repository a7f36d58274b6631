#include "flotilla/files/profile_file.hpp"

#include <utility>

#include "flotilla/base/foreign_text.hpp"
#include "flotilla/files/corrections_file.hpp"
#include "flotilla/files/fabric_links_file.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/text_file.hpp"
#include "model_object.hpp"
#include "profile_sections.hpp"

namespace flotilla::files {
namespace {

using detail::Node;

constexpr std::string_view profile_format = "flotilla-profile";
constexpr std::int64_t profile_version = 1;
constexpr std::size_t most_models = 1000;

/// A list that few profiles have.
struct Extra {
  std::string_view key;
  Node (*node)(const cluster::Profile&);
  void (*read)(const Json&, cluster::Profile&);
  bool (*empty)(const cluster::Profile&);
};
constexpr std::array<Extra, 8> extras{
    Extra{"uplinks", uplinks_node, read_uplinks, [](const cluster::Profile& p) { return p.uplinks.empty(); }},
    Extra{"device_links", device_links_node, read_device_links, [](const cluster::Profile& p) { return p.device_links.empty(); }},
    Extra{"group_sums", group_sums_node, read_group_sums, [](const cluster::Profile& p) { return p.group_sums.empty(); }},
    Extra{"layer_times", layer_times_node, read_layer_times, [](const cluster::Profile& p) { return p.layer_times.empty(); }},
    Extra{"layer_sizes", layer_sizes_node, read_layer_sizes, [](const cluster::Profile& p) { return p.layer_sizes.empty(); }},
    Extra{"link_fits", link_fits_node, read_link_fits, [](const cluster::Profile& p) { return p.link_fits.empty(); }},
    Extra{"egress_prices", egress_prices_node, read_egress_prices, [](const cluster::Profile& p) { return p.egress_prices.empty(); }},
    Extra{"zone_prices", zone_prices_node, read_zone_prices, [](const cluster::Profile& p) { return p.zone_prices.empty(); }}};

std::string json_of(const cluster::Profile& p, const std::vector<model::Config>& models, const std::vector<bench::FabricLink>& fabric_links,
                    const std::vector<cluster::Correction>& corrections = {}) {
  Node::Object object{{"format", std::string{profile_format}},
                      {"version", profile_version},
                      {"model_fingerprint", p.model_fingerprint},
                      {"software", p.software},
                      {"measured_at", p.measured_at},
                      {"device_types", device_types_node(p)},
                      {"devices", devices_node(p)},
                      {"links", links_node(p)},
                      {"operation_times", operation_times_node(p)}};
  if (!models.empty()) object.emplace_back("models", array_of(models, model_object));
  for (const Extra& extra : extras)
    if (!extra.empty(p)) object.emplace_back(std::string{extra.key}, extra.node(p));
  if (!fabric_links.empty()) object.emplace_back("fabric_links", fabric_links_node(fabric_links));
  if (!corrections.empty()) object.emplace_back("corrections", corrections_node(corrections));
  return detail::pretty(std::move(object));
}

std::vector<model::Config> models_of(const Json& list) {
  if (list.size() > most_models) list.refuse(text("has ", list.size(), " models; expected at most ", most_models));
  std::vector<model::Config> models;
  for (const Json& place : list.items()) {
    models.push_back(model_from_json(place));
    for (std::size_t i = 0; i + 1 < models.size(); ++i)
      if (models[i].name == models.back().name) place.refuse(text(in_quotes(models[i].name), " is listed twice in models; remove one"));
  }
  return models;
}

}  // namespace

std::string profile_to_json(const cluster::Profile& profile) { return json_of(profile, {}, {}); }
std::string library_to_json(const Library& library) { return library_to_json(library, {}); }
std::string library_to_json(const Library& library, const std::vector<bench::FabricLink>& fabric_links,
                            const std::vector<cluster::Correction>& corrections) {
  return json_of(library.profile, library.models, fabric_links, corrections);
}
std::string library_to_json(const Library& library, const std::vector<bench::FabricLink>& fabric_links) {
  return json_of(library.profile, library.models, fabric_links);
}

Library library_from_json(const Json& document) {
  require_format(document, profile_format, profile_version);
  document.expect_keys({"format",       "version",       "model_fingerprint", "software", "measured_at",  "device_types",
                        "devices",      "links",         "operation_times",   "models",   "layer_times",  "layer_sizes",
                        "link_fits",    "egress_prices", "zone_prices",       "uplinks",  "device_links", "group_sums",
                        "fabric_links", "corrections"});
  Library library;
  cluster::Profile& profile = library.profile;
  profile.model_fingerprint = document.get_string("model_fingerprint");
  profile.software = document.get_string("software");
  profile.measured_at = document.get_string("measured_at");
  read_device_types(document.at("device_types"), profile);
  read_devices(document.at("devices"), profile);
  read_links(document.at("links"), profile);
  read_operation_times(document.at("operation_times"), profile);
  if (document.has("models")) library.models = models_of(document.at("models"));
  for (const Extra& extra : extras)
    if (document.has(extra.key)) extra.read(document.at(extra.key), profile);
  fabric_links_of(document);  // a damaged list makes a damaged file
  corrections_of(document);
  return library;
}

cluster::Profile profile_from_json(const Json& document) { return library_from_json(document).profile; }
cluster::Profile profile_from_json(std::string_view text, std::string_view source) { return profile_from_json(Json::parse(text, source)); }
Library library_from_json(std::string_view text, std::string_view source) { return library_from_json(Json::parse(text, source)); }

void write_profile(const std::filesystem::path& path, const cluster::Profile& profile) { write_text(path, profile_to_json(profile)); }
void write_profile(const std::filesystem::path& path, const cluster::Profile& profile, const std::vector<bench::FabricLink>& fabric_links) {
  write_text(path, library_to_json({profile, {}}, fabric_links));
}
void write_profile(const std::filesystem::path& path, const cluster::Profile& profile,
                   const std::vector<cluster::Correction>& corrections) {
  write_text(path, json_of(profile, {}, {}, corrections));
}
void write_library(const std::filesystem::path& path, const Library& library) { write_text(path, library_to_json(library)); }
cluster::Profile read_profile(const std::filesystem::path& path) { return profile_from_json(Json::read(path)); }
Library read_library(const std::filesystem::path& path) { return library_from_json(Json::read(path)); }

}  // namespace flotilla::files
