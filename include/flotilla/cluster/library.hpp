#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "flotilla/base/precision.hpp"
#include "flotilla/base/units.hpp"

/// Published measurements of whole layers, links between types and zones, and prices: what a profile library holds beside what a probe
/// measures. Layers are numbered as in model::Config, ranges are half-open.
namespace flotilla::cluster {

/// Seconds of a whole layer for one microbatch on a tensor-parallel group, the group's collectives included. Layers of a range are alike.
struct LayerTime {
  std::string model;  ///< model::Config::name
  std::string device_type;
  int first_layer = 0, last_layer = 0;
  int tensor_parallel = 1;
  int sequences = 1;  ///< microbatch
  Precision precision = Precision::fp32;
  Seconds forward, backward;
  Seconds update;  ///< of the optimizer, as the profiler took it: see the library's source; 0: not measured
  bool operator==(const LayerTime&) const = default;
};

/// Elements that one layer holds on one device of a tensor-parallel group, for a microbatch of one sequence. Layers of a range are alike.
struct LayerSize {
  std::string model;
  int first_layer = 0, last_layer = 0;
  int tensor_parallel = 1;
  std::int64_t parameters = 0;
  std::int64_t input = 0, output = 0;  ///< of its forward pass
  std::int64_t saved = 0;              ///< growth of allocated memory over its forward pass
  bool operator==(const LayerSize&) const = default;
};

/// A published fit of send and receive between `from_count` devices of a node and `to_count` of another (or of the same node, where both
/// zones are empty), each moving messages of `bytes` at once: gigabytes per second of all of them together are
/// a x^2 + b x + c, x = log2(bytes / 1e6), and `most` at most. Fitted for 2^16 to 2^30 bytes.
struct LinkFit {
  std::string from_zone, from_type;
  int from_count = 1;
  std::string to_zone, to_type;
  int to_count = 1;
  double a = 0, b = 0, c = 0;
  BytesPerSecond most;
  bool operator==(const LinkFit&) const = default;
  bool inside_node() const { return from_zone.empty() && to_zone.empty(); }
};

/// US dollars for a byte that leaves one zone for another.
struct EgressPrice {
  std::string from_zone, to_zone;
  double usd_per_byte = 0;
  bool operator==(const EgressPrice&) const = default;
};

/// Devices of one type in one zone.
struct TypeInZone {
  std::string type, zone;
  auto operator<=>(const TypeInZone&) const = default;
};

/// Of a device of a type in one zone, where it differs from the type's elsewhere; 0: the type's.
struct ZonePrice {
  std::string device_type, zone;
  double usd_per_hour = 0;
  double billing_weight = 0;
  bool operator==(const ZonePrice&) const = default;
};

}  // namespace flotilla::cluster
