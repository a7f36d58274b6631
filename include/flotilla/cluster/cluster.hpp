#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/base/ids.hpp"
#include "flotilla/base/precision.hpp"
#include "flotilla/base/units.hpp"

/// What hardware there is and how fast it measured. Plain values; nothing here touches the machine.
namespace flotilla::cluster {

enum class DeviceKind { cpu, gpu };

/// A kind of device, as the catalogue or a probe describes it.
struct DeviceType {
  std::string name;  ///< "cpu:AMD EPYC 9654:2t" (model and threads per rank), "A100-40", ...
  DeviceKind kind = DeviceKind::cpu;
  Bytes memory;              ///< what one device may use
  FlopsPerSecond peak_fp32;  ///< measured (probe) or catalogue peak of matrix products
  FlopsPerSecond peak_bf16;
  BytesPerSecond memory_bandwidth;
  std::string source;  ///< where the figures come from: "probe", or a citation
  bool operator==(const DeviceType&) const = default;
};

/// One device of the allocation: on CPU one MPI rank and the threads it may use.
struct Device {
  Rank rank;
  std::string type;  ///< DeviceType::name
  std::string host;
  std::string zone;    ///< partition, zone or hetjob component; "" where there is one
  int local_rank = 0;  ///< among the ranks of its host
  int threads = 1;
  bool operator==(const Device&) const = default;
};

enum class LinkLevel { node, zone, wide };  ///< inside one host; between hosts of a zone; between zones

/// Piecewise latency–bandwidth model: a message of size s in the piece that holds it takes latency + s / bandwidth.
/// Pieces are in increasing order of `from`; the first starts at 0. Continuous and increasing where it was fitted by us.
struct LinkPiece {
  Bytes from;
  Seconds latency;
  BytesPerSecond bandwidth;
  bool operator==(const LinkPiece&) const = default;
};
struct Link {
  LinkLevel level = LinkLevel::node;
  std::string from, to;  ///< hosts (node, zone level) or zones (wide)
  std::vector<LinkPiece> pieces;
  double relative_scatter = 0;  ///< of the samples about the fit (interquartile range / median)
  bool operator==(const Link&) const = default;
};
/// Time of one message one way. Throws Error{internal} when the link has no pieces.
Seconds transfer_time(const Link&, Bytes size);
/// Least-squares fit of (size, seconds) samples to a few pieces that is nowhere decreasing. At least two sizes.
struct LinkSample {
  Bytes size;
  Seconds time;
  bool operator==(const LinkSample&) const = default;
};
std::vector<LinkPiece> fit_pieces(std::vector<LinkSample>);

/// A measured operation of one layer kind. Median seconds of one run.
struct OperationTime {
  std::string device_type;
  std::string operation;  ///< model::to_string(Operation), or "adamw", "cast", "add" (seconds per million elements)
  int tensor_parallel = 1;
  int sequences = 1;  ///< microbatch
  int length = 1;
  Precision precision = Precision::fp32;
  Seconds time;
  double relative_scatter = 0;
  bool operator==(const OperationTime&) const = default;
};

/// What a probe found. Valid for the model it was measured with (its fingerprint) and the devices listed.
struct Profile {
  std::string model_fingerprint;  ///< fingerprint of the model's shape (hidden, heads, columns, vocabulary, norm, activation)
  std::string software;           ///< versions of what was measured: oneDNN, MPI, UCX, compiler; a change makes it stale
  std::string measured_at;        ///< ISO 8601, UTC
  std::vector<DeviceType> device_types;
  std::vector<Device> devices;  ///< by rank, 0 … n-1
  std::vector<Link> links;
  std::vector<OperationTime> operation_times;
  bool operator==(const Profile&) const = default;
};

/// The type of a device by name, or nullptr.
const DeviceType* find_type(const Profile&, const std::string& name);
/// The link between two ranks' devices: same host, else hosts, else zones, else the slowest of that level. Throws Error{bad_input}
/// when the profile holds none of that level.
const Link& link_between(const Profile&, Rank a, Rank b);
/// Time of an operation: exact size, else linear in tokens between the neighbouring measured sizes of the same (type, operation,
/// tensor_parallel, precision), proportional beyond; nullopt when that combination was never measured.
std::optional<Seconds> operation_time(const Profile&, const std::string& device_type, const std::string& operation, int tensor_parallel,
                                      int sequences, int length, Precision);
/// Why `profile` cannot stand for these devices, software and model, in a few words; empty when it can.
std::string why_stale(const Profile& profile, const std::vector<Device>& devices, const std::string& software,
                      const std::string& model_fingerprint);

}  // namespace flotilla::cluster
