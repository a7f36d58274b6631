#include "flotilla/files/catalogue_file.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "embedded_file.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/nearest.hpp"
#include "profile_sections.hpp"

namespace flotilla::files {
namespace {

using cluster::CatalogueEntry;
using cluster::Figure;
using cluster::ProductFigures;

constexpr std::string_view catalogue_format = "flotilla-catalogue";
constexpr std::int64_t catalogue_version = 1;
constexpr double least_rate = 1;      // of bytes or FLOPs per second: none is zero, for times are divided by it
constexpr double least_share = 1e-6;  // likewise
constexpr double most_of_any = 1e24;
constexpr double most_in_node = 1e6;  // of a node
constexpr double most_error = 10;     // relative
constexpr double longest = 60;        // seconds of a latency

/// A key of "figures": where it goes and what it may be.
struct Row {
  std::string_view key;
  Figure& (*place)(CatalogueEntry&);
  double least, most;
};

constexpr std::array figure_rows{
    Row{"memory_bytes", [](CatalogueEntry& e) -> Figure& { return e.memory; }, 1, 1e15},
    Row{"memory_bandwidth_bytes_per_s", [](CatalogueEntry& e) -> Figure& { return e.memory_bandwidth; }, least_rate, most_of_any},
    Row{"memory_share", [](CatalogueEntry& e) -> Figure& { return e.memory_share; }, least_share, 1},
    Row{"overlap_share", [](CatalogueEntry& e) -> Figure& { return e.overlap; }, 0, 1},
    Row{"launch_s", [](CatalogueEntry& e) -> Figure& { return e.launch; }, 0, longest},
    Row{"context_bytes", [](CatalogueEntry& e) -> Figure& { return e.context; }, 0, 1e12},
    Row{"portable_share", [](CatalogueEntry& e) -> Figure& { return e.portable_share; }, least_share, 1},
    Row{"exponential_share", [](CatalogueEntry& e) -> Figure& { return e.exponential_share; }, least_share, 1},
    Row{"host_speed", [](CatalogueEntry& e) -> Figure& { return e.host_speed; }, least_share, 1e3},
    Row{"matrix_workspace_bytes", [](CatalogueEntry& e) -> Figure& { return e.matrix_workspace; }, 0, 1e12},
    Row{"power_watts", [](CatalogueEntry& e) -> Figure& { return e.power; }, 0, 1e6},
    Row{"devices_per_node", [](CatalogueEntry& e) -> Figure& { return e.devices_per_node; }, 1, most_in_node},
    Row{"compute_capability", [](CatalogueEntry& e) -> Figure& { return e.compute_capability; }, 1, 99},
    Row{"domain_devices", [](CatalogueEntry& e) -> Figure& { return e.domain_devices; }, 1, most_in_node},
    Row{"node_device_bytes_per_s", [](CatalogueEntry& e) -> Figure& { return e.node_device_rate; }, least_rate, most_of_any},
    Row{"node_pair_bytes_per_s", [](CatalogueEntry& e) -> Figure& { return e.node_pair_rate; }, least_rate, most_of_any},
    Row{"node_share", [](CatalogueEntry& e) -> Figure& { return e.node_share; }, least_share, 1},
    Row{"switch_sums_bytes_per_s", [](CatalogueEntry& e) -> Figure& { return e.switch_sums; }, least_rate, most_of_any},
    Row{"node_latency_s", [](CatalogueEntry& e) -> Figure& { return e.node_latency; }, 0, longest},
    Row{"host_link_bytes_per_s", [](CatalogueEntry& e) -> Figure& { return e.host_link_rate; }, least_rate, most_of_any},
    Row{"host_link_share", [](CatalogueEntry& e) -> Figure& { return e.host_link_share; }, least_share, 1},
    Row{"network_card_bytes_per_s", [](CatalogueEntry& e) -> Figure& { return e.network_card_rate; }, least_rate, most_of_any},
    Row{"network_cards_per_node", [](CatalogueEntry& e) -> Figure& { return e.network_cards; }, 1, most_in_node},
    Row{"network_share", [](CatalogueEntry& e) -> Figure& { return e.network_share; }, least_share, 1},
    Row{"network_latency_s", [](CatalogueEntry& e) -> Figure& { return e.network_latency; }, 0, longest},
    Row{"link_relative_error", [](CatalogueEntry& e) -> Figure& { return e.link_error; }, 0, most_error},
};

/// Keys of one kind of operands hold its name: "peak_bf16_flops_per_s".
struct ProductRow {
  std::string_view before, after;
  Figure ProductFigures::*place;
  double least, most;
};

constexpr std::array product_rows{
    ProductRow{"peak_", "_flops_per_s", &ProductFigures::peak, least_rate, most_of_any},
    ProductRow{"matrix_", "_share", &ProductFigures::matrix, least_share, 1},
    ProductRow{"half_", "_flops", &ProductFigures::half, 0, most_of_any},
    ProductRow{"relative_error_", "", &ProductFigures::relative_error, 0, most_error},
};

struct Operands {
  std::string_view name;
  ProductFigures CatalogueEntry::*place;
};

constexpr std::array operands{Operands{"fp32", &CatalogueEntry::fp32}, Operands{"tf32", &CatalogueEntry::tf32},
                              Operands{"bf16", &CatalogueEntry::bf16}, Operands{"fp16", &CatalogueEntry::fp16},
                              Operands{"fp8", &CatalogueEntry::fp8},   Operands{"fp4", &CatalogueEntry::fp4}};

using Sources = std::map<std::string, std::string>;

Figure figure_of(const Json& object, double least, double greatest, const Sources& sources) {
  object.expect_keys({"value", "source"});
  const Json key = object.at("source");
  const auto found = sources.find(key.as_string());
  if (found == sources.end()) key.refuse(text("no such source: ", key.one_line(), "; it must be listed in /sources"));
  return {object.at("value").as_double(least, greatest), found->second};
}

void expect_known_keys(const Json& figures) {
  std::vector<std::string> known;
  for (const Row& row : figure_rows) known.emplace_back(row.key);
  for (const Operands& kind : operands)
    for (const ProductRow& row : product_rows) known.push_back(text(row.before, kind.name, row.after));
  for (const std::string& key : figures.keys())
    if (std::ranges::find(known, key) == known.end()) figures.refuse(text("unknown key ", in_quotes(key), suggestion(key, known)));
}

void read_products(const Json& figures, const Operands& kind, const Sources& sources, ProductFigures& products) {
  const std::string peak = text("peak_", kind.name, "_flops_per_s");
  for (const ProductRow& row : product_rows) {
    const std::string key = text(row.before, kind.name, row.after);
    if (!figures.has(key)) continue;
    if (!figures.has(peak)) figures.refuse(text(in_quotes(key), " requires ", in_quotes(peak)));
    products.*row.place = figure_of(figures.at(key), row.least, row.most, sources);
  }
}

/// What no type is of use without.
void require_basics(const Json& figures) {
  for (const char* key : {"memory_bytes", "memory_bandwidth_bytes_per_s", "peak_fp32_flops_per_s"})
    if (!figures.has(key)) figures.refuse(text(in_quotes(key), " is missing; every type needs it"));
}

/// What nobody measured of a card is a relative's: how much of its peaks it reaches, its node and its network.
void take_over(CatalogueEntry& entry, const CatalogueEntry& relative) {
  const auto take = [&](Figure& figure, const Figure& of) {
    if (!figure.known() && of.known()) figure = {of.value, text("as of ", relative.name, ": ", of.source)};
  };
  using E = CatalogueEntry;
  for (Figure E::*place :
       {&E::memory_share, &E::overlap, &E::launch, &E::context, &E::portable_share, &E::exponential_share, &E::host_speed,
        &E::matrix_workspace, &E::devices_per_node, &E::node_pair_rate, &E::node_share, &E::node_latency, &E::host_link_rate,
        &E::host_link_share, &E::network_card_rate, &E::network_cards, &E::network_share, &E::network_latency, &E::link_error})
    take(entry.*place, relative.*place);
  for (const Operands& kind : operands)
    if (ProductFigures& products = entry.*kind.place; products.peak.known()) {
      take(products.matrix, (relative.*kind.place).matrix);
      take(products.half, (relative.*kind.place).half);
      take(products.relative_error, (relative.*kind.place).relative_error);
    }
}

CatalogueEntry entry_of(const Json& object, const Sources& sources, const cluster::Catalogue& before) {
  object.expect_keys({"name", "aliases", "family", "form", "like", "kind", "vendor", "description", "figures", "node_links"});
  CatalogueEntry entry;
  entry.name = object.get_string("name");
  if (entry.name.empty()) object.at("name").refuse("is empty; expected what plans call the type");
  if (object.has("aliases"))
    for (const Json& alias : object.at("aliases").items()) entry.aliases.push_back(alias.as_string());
  if (object.has("family")) entry.family = object.get_string("family");
  if (object.has("form")) entry.form = object.get_string("form");
  if (object.has("vendor")) entry.vendor = object.get_string("vendor");
  entry.kind = parse_enum<cluster::DeviceKind>(object.at("kind"), device_kinds);
  entry.description = object.get_string("description");
  if (object.has("node_links")) entry.node_links = node_links_of(object.at("node_links"));
  const Json figures = object.at("figures");
  expect_known_keys(figures);
  require_basics(figures);
  for (const Row& row : figure_rows)
    if (figures.has(row.key)) row.place(entry) = figure_of(figures.at(row.key), row.least, row.most, sources);
  for (const Operands& kind : operands) read_products(figures, kind, sources, entry.*kind.place);
  if (object.has("like")) {
    const auto* relative = cluster::find_named(before, cluster::folded_name(object.get_string("like")));
    if (relative == nullptr) object.at("like").refuse("is no type that stands before it in this file");
    take_over(entry, *relative);
  }
  return entry;
}

Sources sources_of(const Json& object) {
  Sources sources;
  for (const std::string& key : object.keys()) {
    sources[key] = object.get_string(key);
    if (sources[key].empty()) object.at(key).refuse("is empty; expected a citation");
  }
  return sources;
}

void require_new(const Json& object, const CatalogueEntry& entry, const cluster::Catalogue& before) {
  if (cluster::find_named(before, cluster::folded_name(entry.name)))
    object.at("name").refuse("is listed twice in the catalogue; remove one");
  for (std::size_t i = 0; i < entry.aliases.size(); ++i)
    if (cluster::find_named(before, cluster::folded_name(entry.aliases[i])))
      object.at("aliases").items()[i].refuse("is another type's name; remove it");
}

}  // namespace

cluster::Catalogue catalogue_from_json(const Json& document) {
  require_format(document, catalogue_format, catalogue_version);
  document.expect_keys({"format", "version", "sources", "device_types"});
  const Sources sources = sources_of(document.at("sources"));
  cluster::Catalogue catalogue;
  for (const Json& object : document.at("device_types").items()) {
    CatalogueEntry entry = entry_of(object, sources, catalogue);
    require_new(object, entry, catalogue);
    catalogue.push_back(std::move(entry));
  }
  return catalogue;
}

cluster::Catalogue catalogue_from_json(std::string_view text, std::string_view source) {
  return catalogue_from_json(Json::parse(text, source));
}

cluster::Catalogue built_in_catalogue() {
  cluster::Catalogue all;
  for (const EmbeddedFile& file : embedded_catalogue()) {
    cluster::Catalogue part = catalogue_from_json(file.text, text("profiles/", file.name));
    for (CatalogueEntry& entry : part) {
      FLOTILLA_REQUIRE(!cluster::find_named(all, cluster::folded_name(entry.name)), ErrorKind::internal, "profiles/", file.name, ": ",
                       in_quotes(entry.name), " is in another file, too");
      all.push_back(std::move(entry));
    }
  }
  return all;
}

}  // namespace flotilla::files
