#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"
#include "flotilla/bench/card.hpp"
#include "flotilla/bench/series.hpp"
#include "flotilla/bench/soak.hpp"

/// What `flotilla bench` measures, and how it is judged. Plain values and pure functions; nothing here touches a machine.
namespace flotilla::bench {

/// One measured quantity of a node. `name` is a FigureKind's key, or one with a subject behind a colon: "tokens_per_second:gpt2".
struct MeasuredFigure {
  std::string name;
  double value = 0;
  bool operator==(const MeasuredFigure&) const = default;
};

/// "NVIDIA H100 80GB HBM3 #3": a device of a node, as figures and answers name it.
std::string numbered_device(const std::string& name, int number);
/// A figure's or an answer's name without the number of its device: those of one name are held against each other, also within a node.
std::string without_device_number(const std::string& name);

/// What is known of all figures of one name.
struct FigureKind {
  std::string key;
  std::string title;  ///< for people: "memory bandwidth"
  std::string unit;   ///< "B/s", "FLOP/s", "B", "s", "tokens/s", ...
  bool more_is_better = true;
  double tolerance = 0;  ///< least relative deviation that counts, whatever little the baseline scatters
  bool by_time = true;   ///< what other programs on the node make worse
};
const std::vector<FigureKind>& figure_kinds();
/// Of a figure's name, subject or not. Throws Error{bad_input} of an unknown one.
const FigureKind& kind_of(const std::string& figure);
/// "memory bandwidth 41 GB/s", "tokens/s of gpt2 812 tokens/s".
std::string in_words(const MeasuredFigure&);
/// "41 GB/s".
std::string value_in_words(const MeasuredFigure&);
/// Of a FigureKind's unit.
std::string value_in_words(double value, const std::string& unit);
/// (after - before) / before, positive where it became worse.
double worsening(const FigureKind&, double before, double after);

/// The known-answer step on one hardware thread, with all others at work.
struct Core {
  int cpu = 0;  ///< kernel number of the hardware thread
  std::string digest;
  Seconds step{};  ///< processor time of the quickest of its runs
  bool operator==(const Core&) const = default;
};

/// Bits that must be the same on every node of a type with the same software.
struct AnswerDigest {
  std::string name;    ///< "fp32, 8 threads"
  std::string digest;  ///< 16 hexadecimal digits
  bool operator==(const AnswerDigest&) const = default;
};

/// A test that could not be made.
struct Failure {
  std::string test;
  std::string reason;
  bool operator==(const Failure&) const = default;
};

/// Something about a node that should be the same on all nodes of its type: "governor", "performance".
struct Property {
  std::string name;
  std::string value;
  bool operator==(const Property&) const = default;
};

/// Names of properties and values that rules speak of.
namespace property {
inline constexpr const char *sockets = "sockets", *numa_nodes = "numa nodes", *cores = "cores", *hardware_threads = "hardware threads",
                            *usable_threads = "usable threads", *gpus = "gpus", *memlock = "memlock", *rdma = "rdma devices",
                            *software = "software", *unlimited = "unlimited", *none = "none";
}  // namespace property

/// A node by itself.
struct NodeReport {
  std::string host;            ///< as the batch system calls it, where there is one
  std::string type;            ///< "2 x AMD EPYC 9654"; nodes of one type are compared
  std::string partition;       ///< "": not known
  std::string network_switch;  ///< that it hangs on; "": not known
  std::string measured_at;
  bool done = false;
  std::string doing;  ///< the test that is under way; "" once done
  std::vector<Property> properties;
  double clock_error = 0;          ///< seconds that its clock is ahead of the file server's
  bool clock_synchronized = true;  ///< as the kernel says
  std::vector<MeasuredFigure> figures;
  std::vector<Core> cores;
  std::vector<AnswerDigest> answers;
  std::vector<Failure> failures;
  double others = -1;           ///< of the processors' time while it was tested, what other programs took; -1: not known
  std::vector<CardEntry> card;  ///< models that were trained on it
  std::optional<Soak> soak;
  bool operator==(const NodeReport&) const = default;
};
/// Whether other programs took so much of the node that its times say nothing about it: more than a tenth.
bool busy(const NodeReport&);
/// The value of a property or figure, or nullptr.
const std::string* find_property(const NodeReport&, const std::string& name);
const double* find_figure(const NodeReport&, const std::string& name);
/// Of all devices of the node whose figure has this name without their number.
std::vector<double> figure_values(const NodeReport&, const std::string& name);
/// The worst of these.
std::optional<double> worst_value(const NodeReport&, const std::string& name);

/// What a transport makes of messages of one size between two places; 0: not measured.
struct LinkPoint {
  Bytes size;
  Seconds latency{};        ///< half a round trip
  BytesPerSecond stream{};  ///< one message after the other, one way
  BytesPerSecond both{};    ///< of both directions together, at once
  BytesPerSecond put{};     ///< writes to the other's memory
  bool operator==(const LinkPoint&) const = default;
};

/// A link between the first processes of two nodes, or between two processes of one.
struct LinkReport {
  std::string from, to;   ///< hosts
  std::string transport;  ///< as in UCX_TLS; "": what UCX chooses; "mpi": the training's own messages
  bool alone = false;     ///< nobody else sent at the time
  std::vector<LinkPoint> points;
  std::string refusal;  ///< why there are none
  std::int64_t segments = 0,
               resent = 0;  ///< of TCP, of both ends while it was measured: sent, and of these once more; 0: none, or not known
  bool operator==(const LinkReport&) const = default;
};
inline constexpr const char* training_transport = "mpi";

/// An all-reduce in fp32 of ranks that training would let reduce together, after the proof that their sums are right.
struct CollectivePoint {
  Bytes size;
  Seconds time{};  ///< of the slowest member
  bool operator==(const CollectivePoint&) const = default;
};
struct CollectiveReport {
  std::string level;  ///< "node", "switch", "partition", "all"; or faulty_member, with a refusal
  std::string name;   ///< of the node, switch or partition
  int ranks = 0;
  std::vector<CollectivePoint> points;
  std::string refusal;  ///< what the proof found; "": the sums are right
  bool operator==(const CollectiveReport&) const = default;
};

/// A node whose sums with sound nodes are wrong.
inline constexpr const char* faulty_member = "faulty";

/// A node that should have reported and did not, or not to the end.
struct LostNode {
  std::string host;  ///< "2 nodes" where nobody knows their names
  std::string last;  ///< what it was last heard of doing; "": it was never heard
  bool operator==(const LostNode&) const = default;
};

/// Who is expected to report.
struct Expected {
  std::vector<std::string> hosts;  ///< by name; or, where the names are not known:
  int count = 0;                   ///< so many in all
};

/// One run of `flotilla bench`.
struct BenchReport {
  std::string measured_at;        ///< ISO 8601, UTC
  std::vector<NodeReport> nodes;  ///< those that are done, by host
  std::vector<LostNode> lost;
  std::vector<LinkReport> links;              ///< empty: links were not tested
  std::vector<CollectiveReport> collectives;  ///< empty: collectives were not tested
  std::vector<Series> imported;               ///< what other programs measured
  std::vector<std::string> left_out;          ///< what did not fit the time, in words
  bool operator==(const BenchReport&) const = default;
};

/// What the report's own tests found of a series' quantity on its hosts: by the training's messages, at a size of both, the smallest for a
/// latency and the largest for the others. Nothing where they did not measure it.
std::optional<SeriesPoint> own_point(const BenchReport&, const Series&);

}  // namespace flotilla::bench
