#pragma once
#include <functional>

#include "flotilla/simulate/instruction_cost.hpp"

namespace flotilla::fixture {

/// Costs that a test states. Every path is the same unless `distinct_paths`, when no two ranks can be of one kind.
struct FakeCost : simulate::InstructionCost {
  std::function<double(const program::Site&, int sequences)> compute_seconds = [](const program::Site&, int) { return 1.0; };
  double message_seconds = 0.25, collective_seconds = 0.5;
  bool distinct_paths = false;

  simulate::Cost compute(const program::Program&, const program::RankClass&, const program::Site& site, int sequences) const override {
    return {{compute_seconds(site, sequences)}, 0.1, false};
  }
  simulate::Cost message(Rank, Rank, Bytes, int) const override { return {{message_seconds}, 0.1, false}; }
  simulate::Cost collective(program::Op, const program::Group&, Bytes, Bytes, int) const override {
    return {{collective_seconds}, 0.1, false};
  }
  std::uint64_t host(Rank) const override { return 0; }
  int lanes(Rank, Rank) const override { return 1; }
  std::uint64_t path(Rank from, Rank to) const override {
    return distinct_paths ? static_cast<std::uint64_t>(from.value) * 1000003 + static_cast<std::uint64_t>(to.value) + 1 : 1;
  }
  std::uint64_t path(const program::Group& group) const override { return group.members.size(); }
};

}  // namespace flotilla::fixture
