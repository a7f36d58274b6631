#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/cluster/cluster.hpp"

/// The hardware catalogue: what vendors and published measurements say of device types that nobody has probed. On disk: profiles/ and
/// docs/formats/catalogue.md.
namespace flotilla::cluster {

/// A number and where it comes from. A figure that nobody published has no source and counts as unknown.
struct Figure {
  double value = 0;
  std::string source;
  bool known() const { return !source.empty(); }
  bool operator==(const Figure&) const = default;
};

/// How matrix products of one kind of operands reach their peak; see Efficiency.
struct ProductFigures {
  Figure peak;            ///< FLOP/s, dense
  Figure matrix;          ///< share of the peak that large products reach
  Figure half;            ///< FLOPs of the product that reaches half of `matrix`
  Figure relative_error;  ///< known error of layer times made from these figures
  bool operator==(const ProductFigures&) const = default;
};

struct CatalogueEntry {
  std::string name;
  std::vector<std::string> aliases;
  std::string family;  ///< what people call the card whatever its form and memory: "A100"; "": the name
  std::string form;    ///< "SXM", "PCIe", "NVL", "OAM", ...; "": it is not told
  DeviceKind kind = DeviceKind::gpu;
  std::string vendor;       ///< "AMD", "Intel", ...; "": NVIDIA, or it is not told
  std::string description;  ///< what one device is: a card, a die of it, a core
  Figure memory;            ///< bytes
  ProductFigures fp32;      ///< multiplied as IEEE fp32
  ProductFigures tf32;      ///< fp32 operands rounded to TF32 on the way in
  ProductFigures bf16, fp16;
  ProductFigures fp8, fp4;    ///< of blocks' linear products alone, in forecasts of runtimes that have them
  Figure memory_bandwidth;    ///< bytes per second
  Figure memory_share;        ///< of it that streaming reaches
  Figure overlap;             ///< Efficiency::overlap
  Figure launch;              ///< seconds from one kernel's start to the next's at least
  Figure portable_share;      ///< of the peak of half precision, that instructions of older types reach
  Figure exponential_share;   ///< of what Hopper's attention kernels reach, by the peak: exponentials have units of their own
  Figure host_speed;          ///< of one core of the usual node's host, at starting kernels; 1: an EPYC 7742 (DGX A100)
  Figure matrix_workspace;    ///< bytes that the vendor recommends for the workspace of matrix products
  Figure power;               ///< watts, design limit
  Figure devices_per_node;    ///< usual
  Figure compute_capability;  ///< of NVIDIA's: which machine code runs there, "8.6"
  Figure domain_devices;      ///< that the links of a node join where these reach over several nodes
  Figure context;             ///< bytes that context and libraries hold beside what they hold on every type
  Figure node_device_rate;    ///< bytes per second that one device may send to the others of its node, one way
  Figure node_pair_rate;      ///< bytes per second from one device of a node to one other, one way
  Figure node_share;          ///< of node_pair_rate that large messages reach
  Figure node_latency;        ///< seconds of a small message
  Figure switch_sums;         ///< DeviceType::switch_sums, of the usual node
  Figure host_link_rate;      ///< bytes per second between one device and its host's memory, one way
  Figure host_link_share;     ///< of it that copies from and to pinned memory reach
  Figure network_card_rate;   ///< bytes per second of one network card of the usual node, one way
  Figure network_cards;       ///< of the usual node
  Figure network_share;       ///< of network_card_rate that large messages reach
  Figure network_latency;     ///< seconds of a small message
  NodeLinks node_links;       ///< of the usual node, where no switch joins its devices
  Figure link_error;          ///< relative, of transfer times made from these figures
  bool operator==(const CatalogueEntry&) const = default;
};

using Catalogue = std::vector<CatalogueEntry>;

/// How fp32 operands are multiplied: frameworks differ (PyTorch: IEEE unless asked since 1.12, TF32 before; NVIDIA's containers: TF32).
enum class Fp32Products { ieee, tf32 };

/// Lower case, without what separates: "RTX 2080", "rtx-2080" and "RTX_2080" are one name.
std::string folded_name(std::string_view);
/// The first entry whose name or alias folds to `key`; nullptr when there is none.
const CatalogueEntry* find_named(const Catalogue&, std::string_view key);

/// What a word says of a device: a gres type of a site, a feature of a node, the driver's name of a card, an entry of --pool.
struct DeviceWord {
  std::vector<const CatalogueEntry*> may_be;  ///< what nothing in the word contradicts, the smallest memory first; empty: unknown
  bool slice = false;                         ///< of a card (MIG); never the card: `may_be` is empty then
};
/// Case, '-', '_', '.', blanks and vendors' names in front do not count. Beside an entry's name, alias or family a word may hold forms and
/// sizes of memory, which the entry must have, and nothing else.
DeviceWord read_device_word(const Catalogue&, std::string_view word);
/// Of those, what a word agrees with that holds forms and sizes alone ("hbm80g", "sxm4"); all where the word says something else.
std::vector<const CatalogueEntry*> narrowed(std::vector<const CatalogueEntry*>, std::string_view word);

/// The first entry of that name or alias (a site's own entries stand before the built-in ones), else the only one that the word may be;
/// a "+tf32" at the end does not count. nullptr when there is none.
const CatalogueEntry* find(const Catalogue&, std::string_view name);

/// The figures as a device type called `entry.name`. Throws Error{unavailable} when TF32 is asked of a type that has none.
DeviceType device_type(const CatalogueEntry&, Fp32Products = Fp32Products::ieee);
/// The type of a name, called by that name as it was written; "NAME+tf32" multiplies fp32 as TF32. Throws Error{bad_input} with the
/// nearest known name.
DeviceType device_type(const Catalogue&, std::string_view name);

/// Links among devices of these types, `from` and `to` naming types: one of level node for each type, one of level zone and one of level
/// wide for each pair of them, the slower end's rate, the cards of the end that has fewer as lanes. Nobody can know what lies between
/// two zones: a wide link is the network's with `wide_latency`. Throws Error{bad_input} for an unknown type.
inline constexpr Seconds wide_latency{1e-3};
std::vector<Link> catalogue_links(const Catalogue&, const std::vector<std::string>& types);

/// `profile` with what it lacks of `types`: a type it does not have comes from the catalogue; figures of a type that it has and that are 0
/// (memory, peaks, bandwidth, power, per_node) are filled from the entry of that name where there is one. Filled peaks bring their
/// efficiency; that of fp32 is TF32's where the profile holds fp32 times of the type, for they may have been taken so and a peak bounds
/// them. Links among the types are added at every level where the profile has none; published fits go before them (LinkFit).
/// Throws Error{bad_input} for a type that neither knows.
Profile complete_from_catalogue(Profile profile, const Catalogue&, const std::vector<std::string>& types);

}  // namespace flotilla::cluster
