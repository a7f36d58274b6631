#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/base/ids.hpp"
#include "flotilla/base/precision.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/cluster/device_kind.hpp"
#include "flotilla/cluster/library.hpp"

/// What hardware there is and how fast it measured. Plain values; nothing here touches the machine.
namespace flotilla::cluster {

/// What operations reach of a device's peaks. With P = flops / (peak x matrix(f)), matrix(f) = matrix x f / (f + half), f in FLOPs of one
/// matrix product, and S = traffic / (bandwidth x memory), an operation takes
///   max(kernels x launch, P + S - overlap x min(P, S)).
/// A probe's peaks are what products reached, and its traffic is the least: the defaults, max(flops / peak, traffic / bandwidth).
struct Efficiency {
  double matrix = 1;     ///< share of the fp32 peak that large matrix products reach, 0 ... 1
  double memory = 1;     ///< share of the memory bandwidth that streaming reaches, 0 ... 1
  double half = 0;       ///< FLOPs of the fp32 product that reaches half of `matrix`
  Seconds launch{};      ///< from one kernel's start to the next's at least
  double error = 0.5;    ///< relative, of times made from these figures in fp32
  double matrix_16 = 1;  ///< `matrix`, `half` and `error` of bf16 and fp16
  double half_16 = 0;
  double error_16 = 0.5;
  double overlap = 1;  ///< share of streaming that hides behind products: 1: all of it (one kernel does both), 0: none (kernels in turn)
  bool operator==(const Efficiency&) const = default;
};

/// Copies between a GPU's memory and pinned memory of its host, one way: latency + size / bandwidth.
struct CopyRate {
  Seconds latency{};
  BytesPerSecond bandwidth{};  ///< 0: not known
  bool known() const { return bandwidth.value > 0; }
  /// 0 where it is not known, and of nothing.
  Seconds time(Bytes size) const { return known() && size.count > 0 ? latency + size / bandwidth : Seconds{}; }
  bool operator==(const CopyRate&) const = default;
};

/// Which devices of a node are joined by links of their own, where no switch joins all. Devices are numbered as the node numbers them.
struct NodeLinks {
  struct Bundle {
    int a = 0, b = 0, links = 1;
    bool operator==(const Bundle&) const = default;
  };
  BytesPerSecond each{};  ///< that one link reaches, each way
  std::vector<Bundle> bundles;
  bool operator==(const NodeLinks&) const = default;
};

/// What our exchanges and computing take from each other where the thread that moves messages has no core of its own. 0: it has one.
struct Interference {
  double compute_share = 0;  ///< of computing that is lost while an exchange moves, 0 ... 1
  Seconds message_delay{};   ///< by which a message arrives later when both its ends compute meanwhile
  bool any() const { return compute_share > 0 || message_delay.value > 0; }
  bool operator==(const Interference&) const = default;
};

/// A kind of device, as the catalogue or a probe describes it. A figure that is not known is 0.
struct DeviceType {
  std::string name;  ///< "cpu:AMD EPYC 9654:2t" (model and threads per rank), "A100-40", ...
  DeviceKind kind = DeviceKind::cpu;
  Bytes memory;              ///< what one device may use
  FlopsPerSecond peak_fp32;  ///< measured (probe) or catalogue peak of matrix products, dense
  FlopsPerSecond peak_bf16;
  BytesPerSecond memory_bandwidth;
  std::string source;  ///< where the figures come from: "probe", or a citation
  FlopsPerSecond peak_fp16{};
  Bytes context{};            ///< memory that the driver's context and the vendor's libraries hold beside what they hold on every type
  int per_node = 0;           ///< devices in a node of this type, where the type says so
  double power_watts = 0;     ///< thermal design power of one device
  double usd_per_hour = 0;    ///< price of one device, where its zone has none of its own (usd_per_hour() below)
  double billing_weight = 0;  ///< billing units of one device-hour (Slurm TRESBillingWeights)
  Efficiency efficiency{};
  CopyRate to_device{}, to_host{};  ///< of a GPU whose messages go through its host's memory
  Bytes host_memory{};              ///< of a GPU: what its rank may use of the host's memory; 0: not known
  NodeLinks node_links{};           ///< without bundles: every two devices of a node reach the same
  Bytes nccl_memory{};              ///< of a GPU: what NCCL takes of its memory for each other member of a communicator
  Bytes device_mpi_memory{};        ///< of a GPU: what MPI takes of its memory for each other GPU that it exchanges device memory with
  /// Of GPUs whose node's switches add what passes them (NVLS): bytes per second that one sends there, and gets; 0: none.
  BytesPerSecond switch_sums{};
  Interference interference{};
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

/// A device by its place, whatever rank it has in a job.
struct DevicePlace {
  std::string host;
  int local_rank = 0;
  auto operator<=>(const DevicePlace&) const = default;
};
inline DevicePlace place_of(const Device& device) { return {device.host, device.local_rank}; }

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
  std::string from, to;  ///< hosts (node, zone level) or zones (wide); or device types, for what is not measured
  std::vector<LinkPiece> pieces;
  double relative_scatter = 0;  ///< of the samples about the fit (interquartile range / median)
  int lanes = 1;                ///< messages between the two ends that move at full rate at once (network cards of a host); more share them
  /// Half an all-reduce of our runtime between the two ends, by the bytes that each sends in a phase of it: both directions at once, waking
  /// and polling, the addition. Empty: not measured, then a sum is made up of messages and additions.
  std::vector<LinkPiece> sum_pieces{};
  /// Of level zone: what somebody says of nodes of this zone alone, in place of what was measured; `from` and `to` name device types, or
  /// nothing: any. In no file.
  std::optional<std::string> stated_zone{};
  bool operator==(const Link&) const = default;
};
/// How what GPUs exchange moves: through their hosts' memory by MPI, from device to device by NCCL, or by an MPI library that takes device
/// memory.
enum class Transport : std::uint8_t { host, nccl, device_mpi };
inline constexpr int transport_count = 3;

/// What a transport makes of two places that have GPUs: a link from device memory to device memory, or the reason why there is none. Sums
/// are in the members' order.
struct DeviceLink {
  Transport transport = Transport::nccl;
  Link link;            ///< as between CPUs; without pieces where it is refused
  std::string refusal;  ///< empty: it passed its proof
  bool operator==(const DeviceLink&) const = default;
};

/// What a transport makes of an all-reduce over a whole group of GPUs, or the reason why there is none. Links tell what it would take if no
/// pair held up another.
struct GroupSum {
  Transport transport = Transport::nccl;
  std::vector<DevicePlace> members;  ///< at least three, each once; two where a library sums, since links tell nothing of that
  std::vector<LinkPiece> pieces;     ///< by the bytes of what is summed; none where it is refused
  double relative_scatter = 0;
  std::string refusal;      ///< empty: it passed its proof
  bool by_library = false;  ///< the transport's own all-reduce (NCCL's), else ours, in the members' order
  bool operator==(const GroupSum&) const = default;
};

/// What all messages between one zone's hosts and other zones' share, in each direction: the line from the zone's switch to the others.
struct Uplink {
  std::string zone;
  BytesPerSecond bandwidth;
  bool operator==(const Uplink&) const = default;
};
/// Time of one message one way. Throws Error{internal} when the link has no pieces.
Seconds transfer_time(const Link&, Bytes size);
/// By Link::sum_pieces, which must not be empty.
Seconds sum_time(const Link&, Bytes size);
/// Least-squares fit of (size, seconds) samples to a few pieces that is nowhere decreasing. At least two sizes.
struct LinkSample {
  Bytes size;
  Seconds time;
  bool operator==(const LinkSample&) const = default;
};
std::vector<LinkPiece> fit_pieces(std::vector<LinkSample>);

/// Whether an operation is timed by the element and not by the layer: "adamw", "squared_norm", "cast", "add".
bool is_per_element(const std::string& operation);

/// A measured operation of one layer kind. Median seconds of one run.
struct OperationTime {
  std::string device_type;
  std::string operation;  ///< model::to_string(Operation), or one that is_per_element() (seconds per million elements)
  int tensor_parallel = 1;
  int sequences = 1;  ///< microbatch
  int length = 1;
  Precision precision = Precision::fp32;
  Seconds time;
  double relative_scatter = 0;
  bool operator==(const OperationTime&) const = default;
};

/// What is known of some hardware. A probe's: the devices listed, valid for the model it was measured with (its fingerprint). A library's
/// (catalogue, published measurements): no devices, but types, layers and links by type and zone; plans are forecast on devices that
/// `allocate` invents.
struct Profile {
  std::string model_fingerprint;  ///< fingerprint of the model's shape (hidden, heads, columns, vocabulary, norm, activation)
  std::string software;           ///< versions of what was measured: oneDNN, MPI, UCX, compiler; a change makes it stale
  std::string measured_at;        ///< ISO 8601, UTC
  std::vector<DeviceType> device_types;
  std::vector<Device> devices;  ///< by rank, 0 … n-1
  std::vector<Link> links;
  std::vector<OperationTime> operation_times;
  std::vector<LayerTime> layer_times{};
  std::vector<LayerSize> layer_sizes{};
  std::vector<LinkFit> link_fits{};
  std::vector<EgressPrice> egress_prices{};
  std::vector<Uplink> uplinks{};           ///< of zones whose hosts hold each other up on the way to other zones; each zone once
  std::vector<ZonePrice> zone_prices{};    ///< each type and zone once
  std::vector<DeviceLink> device_links{};  ///< between GPUs; what they lack goes through the hosts' memory
  std::vector<GroupSum> group_sums{};      ///< of groups of GPUs that stand for others
  /// Between GPUs, wherever it joins them, whatever takes least: a job's wish, in no file. Absent: what takes least.
  std::optional<Transport> wanted_transport{};
  bool operator==(const Profile&) const = default;
};

/// The type of a device by name, or nullptr.
const DeviceType* find_type(const Profile&, const std::string& name);
/// US dollars, and billing units, for an hour of one device of a type in a zone: the zone's own, else the type's; 0: not known.
double usd_per_hour(const Profile&, const std::string& type, const std::string& zone);
double billing_weight(const Profile&, const std::string& type, const std::string& zone);
/// The zone's own prices of a type, all 0 where it had none.
ZonePrice& zone_price(Profile&, const std::string& type, const std::string& zone);
/// What somebody says of two nodes of one zone; nullptr: nothing, or they are in two zones or one node.
const Link* stated_link(const Profile&, const Device& a, const Device& b);
/// The link between two ranks' devices: as it is stated, else of their hosts or zones, else of their types, else the slowest of that level.
/// Throws Error{bad_input} when the profile holds none of that level.
const Link& link_between(const Profile&, Rank a, Rank b);
/// The uplink of a zone, or nullptr: its hosts' messages to other zones do not hold each other up.
const Uplink* uplink_of(const Profile&, const std::string& zone);
/// What a profile says of an operation at a size, and between what its time lies where that size was not measured. Both ends follow from
/// two assumptions: more tokens never take less time, and a token never takes more time among more of them. Past the largest of several
/// sizes, the time moreover rises at least as steeply as between the last two: a device that fills up gets no faster. At a measured size
/// all three are equal.
struct SizedTime {
  Seconds time, least, most;
};
/// Exact size, else linear in tokens between the neighbouring measured sizes of the same (type, operation, tensor_parallel, precision),
/// proportional beyond; nullopt when that combination was never measured.
std::optional<SizedTime> sized_operation_time(const Profile&, const std::string& device_type, const std::string& operation,
                                              int tensor_parallel, int sequences, int length, Precision);
/// Its time alone.
std::optional<Seconds> operation_time(const Profile&, const std::string& device_type, const std::string& operation, int tensor_parallel,
                                      int sequences, int length, Precision);
/// The profile for some of its devices, in whatever order they are ranks now; nothing where one of them was not measured, or not with as
/// many ranks on its host. Links stay those of hosts and zones.
std::optional<Profile> part_of(const Profile&, const std::vector<Device>& devices);
/// Why `profile` cannot stand for these devices, software and model, in a few words; empty when it can.
std::string why_stale(const Profile& profile, const std::vector<Device>& devices, const std::string& software,
                      const std::string& model_fingerprint);

}  // namespace flotilla::cluster
