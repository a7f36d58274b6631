#pragma once
#include <cstdint>
#include <string>

#include "flotilla/base/ids.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/cluster/cluster.hpp"
#include "flotilla/program/program.hpp"

namespace flotilla::simulate {

/// How long something takes and how sure that is.
struct Cost {
  Seconds time;
  double relative_error = 0;
  bool estimated = false;  ///< by a roofline, not from a measurement
};

/// How many equal messages, or equal groups, move at the same time and share what they pass.
struct Flows {
  int cards = 1;  ///< leave one host, or enter one
  int out = 1;    ///< leave one zone by its uplink; of groups: pass an uplink
  int in = 1;     ///< enter one zone by its uplink
  constexpr Flows(int through_cards = 1, int out_of_zone = 1, int into_zone = 1) : cards{through_cards}, out{out_of_zone}, in{into_zone} {}
  bool operator==(const Flows&) const = default;
};

/// What instructions cost. All times are finite and not negative. Pure: equal arguments give equal costs.
class InstructionCost {
 public:
  virtual ~InstructionCost() = default;

  /// An instruction of a compute queue that is no message. `sequences`: of the microbatch, or of a full
  /// one where the instruction runs once per step.
  virtual Cost compute(const program::Program&, const program::RankClass&, const program::Instruction&, int sequences) const = 0;

  /// One of several equal messages that move at the same time, both ends ready. Where the ends lie on two hosts, more flows than the link
  /// has lanes share it: latency + max(1, flows.cards / lanes) x what the bytes take alone. Where they lie in two zones, flows through an
  /// uplink share that: at least latency + flows x bytes / its bandwidth.
  virtual Cost message(Rank from, Rank to, Bytes, const Flows& flows = {}) const = 0;

  /// all_reduce, all_gather or reduce_scalars over a group, every member ready. `bytes`: the reduced buffer, or one member's contribution;
  /// `element`: size of one number; `flows`: equal groups that do the same at the same time through the same hosts' cards, the same
  /// uplinks.
  virtual Cost collective(program::CollectiveKind, const program::Group&, Bytes bytes, Bytes element, const Flows& flows = {}) const = 0;

  /// What exchanges and computing of a rank on this type take from each other; nothing where it is not measured.
  virtual cluster::Interference interference([[maybe_unused]] const std::string& device_type) const { return {}; }

  /// The part of a member's computing that is lost while a collective of the group moves beside it, 0 ... 1: its kernels hold a part of the
  /// device.
  virtual double collective_share([[maybe_unused]] const program::Group&) const { return 0; }

  /// Equal for ranks of one host, whose messages to other hosts leave and arrive by the same cards.
  virtual std::uint64_t host(Rank) const = 0;
  /// Messages between these two ranks' hosts that move at full rate at once, at least 1.
  virtual int lanes(Rank from, Rank to) const = 0;
  /// Equal for ranks whose messages to other zones leave and arrive by one uplink; below 0 where they hold nobody up.
  virtual int uplink(Rank) const = 0;

  /// Equal for two pairs of ranks only when message() is equal between them for every size.
  virtual std::uint64_t path(Rank from, Rank to) const = 0;
  /// Equal for two groups only when collective() is equal on them for every operation and size.
  virtual std::uint64_t path(const program::Group&) const = 0;
};

}  // namespace flotilla::simulate
