#pragma once
#include <algorithm>
#include <functional>
#include <vector>

#include "flotilla/simulate/instruction_cost.hpp"

namespace flotilla::fixture {

/// Costs that a test states. Every path is the same unless `distinct_paths`, when no two ranks can be of one kind. All ranks stand on one
/// host unless `host_of` says otherwise; between hosts more flows than lanes share what bytes take beyond the latency.
struct FakeCost : simulate::InstructionCost {
  std::function<double(const program::Instruction&, int sequences)> compute_seconds = [](const program::Instruction&, int) { return 1.0; };
  double message_seconds = 0.25, collective_seconds = 0.5, latency_seconds = 0;
  bool distinct_paths = false;
  std::vector<std::uint64_t> host_of;  ///< by rank
  int lane_count = 1;
  std::vector<int> uplink_of;  ///< by rank; empty: none
  double uplink_room = 1;      ///< flows that pass an uplink at full rate at once
  cluster::Interference taken;
  double taken_by_collectives = 0;

  double shared(double seconds, Bytes bytes, const simulate::Flows& flows) const {
    const double cards = static_cast<double>(flows.cards) / lane_count, uplinks = std::max(flows.out, flows.in) / uplink_room;
    return latency_seconds + (bytes.count > 0 ? std::max({1.0, cards, uplink_of.empty() ? 0 : uplinks}) * seconds : 0);
  }

  simulate::Cost compute(const program::Program&, const program::RankClass&, const program::Instruction& instruction,
                         int sequences) const override {
    return {{compute_seconds(instruction, sequences)}, 0.1, false};
  }
  simulate::Cost message(Rank, Rank, Bytes bytes, const simulate::Flows& flows) const override {
    return {{shared(message_seconds, bytes, flows)}, 0.1, false};
  }
  simulate::Cost collective(program::CollectiveKind, const program::Group&, Bytes bytes, Bytes,
                            const simulate::Flows& flows) const override {
    return {{shared(collective_seconds, bytes, flows)}, 0.1, false};
  }
  cluster::Interference interference(const std::string&) const override { return taken; }
  double collective_share(const program::Group&) const override { return taken_by_collectives; }
  std::uint64_t host(Rank rank) const override { return host_of.empty() ? 0 : host_of.at(rank.index()); }
  int lanes(Rank, Rank) const override { return lane_count; }
  int uplink(Rank rank) const override { return uplink_of.empty() ? -1 : uplink_of.at(rank.index()); }
  std::uint64_t path(Rank from, Rank to) const override {
    return distinct_paths ? static_cast<std::uint64_t>(from.value) * 1000003 + static_cast<std::uint64_t>(to.value) + 1 : 1;
  }
  std::uint64_t path(const program::Group& group) const override { return group.members.size(); }
};

}  // namespace flotilla::fixture
