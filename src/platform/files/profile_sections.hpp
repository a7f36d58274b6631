#pragma once
#include <array>
#include <string>
#include <string_view>

#include "document.hpp"
#include "flotilla/bench/fabric_links.hpp"
#include "flotilla/cluster/cluster.hpp"
#include "flotilla/cluster/corrections.hpp"
#include "node.hpp"

/// The lists of a profile, one source file for each idea: devices, links, times of operations, measurements of whole layers.
/// Readers throw Error{bad_input} with file, JSON pointer and what was expected.
namespace flotilla::files {

/// Most entries of one list: far above any profile, far below what a reader could not hold.
inline constexpr std::size_t most_entries = 200'000;
inline constexpr double slowest_rate = 1e-300;                                         ///< bytes per second; no rate is zero
inline constexpr std::array<std::string_view, 2> device_kinds{"cpu", "gpu"};           ///< cluster::DeviceKind
inline constexpr std::array<std::string_view, 3> link_levels{"node", "zone", "wide"};  ///< cluster::LinkLevel
inline constexpr int most_devices = 1 << 24;                                           ///< of anything that counts devices or sequences

detail::Node device_types_node(const cluster::Profile&);
detail::Node devices_node(const cluster::Profile&);
detail::Node links_node(const cluster::Profile&);
detail::Node operation_times_node(const cluster::Profile&);
detail::Node layer_times_node(const cluster::Profile&);
detail::Node layer_sizes_node(const cluster::Profile&);
detail::Node link_fits_node(const cluster::Profile&);
detail::Node egress_prices_node(const cluster::Profile&);
detail::Node zone_prices_node(const cluster::Profile&);
detail::Node uplinks_node(const cluster::Profile&);
detail::Node device_links_node(const cluster::Profile&);
detail::Node group_sums_node(const cluster::Profile&);
detail::Node fabric_links_node(const std::vector<bench::FabricLink>&);
detail::Node corrections_node(const std::vector<cluster::Correction>&);

/// Each fills its list of the profile, whose device types must have been read before.
void read_device_types(const Json& list, cluster::Profile&);
void read_devices(const Json& list, cluster::Profile&);
void read_links(const Json& list, cluster::Profile&);
void read_operation_times(const Json& list, cluster::Profile&);
void read_layer_times(const Json& list, cluster::Profile&);
void read_layer_sizes(const Json& list, cluster::Profile&);
void read_link_fits(const Json& list, cluster::Profile&);
void read_egress_prices(const Json& list, cluster::Profile&);
void read_zone_prices(const Json& list, cluster::Profile&);
void read_uplinks(const Json& list, cluster::Profile&);
void read_device_links(const Json& list, cluster::Profile&);
void read_group_sums(const Json& list, cluster::Profile&);

/// Of a device type, here or in a catalogue. Throws Error{bad_input}.
cluster::NodeLinks node_links_of(const Json& object);

/// The elements of a list that is not absurdly long.
std::vector<Json> entries(const Json& list);

/// The name of a type that the profile describes.
std::string known_type(const Json& place, const cluster::Profile&);

template <class Enum, std::size_t N>
std::string spelling(const std::array<std::string_view, N>& names, Enum value) {
  return std::string{names[static_cast<std::size_t>(value)]};
}

template <class Enum, std::size_t N>
Enum parse_enum(const Json& place, const std::array<std::string_view, N>& names) {
  const std::string value = place.as_string();
  std::string known;
  for (std::size_t i = 0; i < N; ++i) {
    if (value == names[i]) return static_cast<Enum>(i);
    known += (i == 0 ? "" : ", ") + std::string{names[i]};
  }
  place.refuse(text("expected one of ", known, ", got ", place.one_line()));
}

template <class Values, class Convert>
detail::Node array_of(const Values& values, Convert convert) {
  detail::Node::Array nodes;
  for (const auto& value : values) nodes.push_back(convert(value));
  return nodes;
}

}  // namespace flotilla::files
