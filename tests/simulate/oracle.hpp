#pragma once
#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "flotilla/program/program.hpp"
#include "flotilla/simulate/instruction_cost.hpp"

namespace flotilla::fixture {

/// The slow and plain reading of program.hpp: every rank by program::expand, sweeps over all instructions until nothing moves. Seconds of
/// the step, or -1 when it never ends.
class Oracle {
 public:
  Oracle(const program::Program& program, const simulate::InstructionCost& cost) : program_{program}, cost_{cost} {
    for (std::size_t r = 0; r < program.ranks.size(); ++r) lists_.push_back(program::expand(program, Rank{static_cast<int>(r)}));
    for (const auto& list : lists_) {
      started_.emplace_back(list.size(), -1.0);
      finished_.emplace_back(list.size(), -1.0);
    }
  }

  double run() {
    while (sweep()) {
    }
    double end = 0;
    for (const auto& rank : finished_)
      for (double t : rank) {
        if (t < 0) return -1;
        end = std::max(end, t);
      }
    return end;
  }

 private:
  using Id = std::pair<std::size_t, std::size_t>;  // rank, position

  const program::RankClass& class_of(std::size_t r) const {
    return program_.classes[static_cast<std::size_t>(program_.ranks[r].rank_class)];
  }
  const program::Instruction& instruction(Id id) const {
    return class_of(id.first).instructions[static_cast<std::size_t>(lists_[id.first][id.second].instruction)];
  }
  int sequences(Id id) const {
    const auto& s = instruction(id);
    return s.per_microbatch ? class_of(id.first).sequences(lists_[id.first][id.second].microbatch) : class_of(id.first).shape.sequences;
  }

  bool sweep() {
    bool moved = false;
    for (std::size_t r = 0; r < lists_.size(); ++r)
      for (std::size_t i = 0; i < lists_[r].size(); ++i) {
        if (started_[r][i] < 0 && may_start({r, i})) moved = true;
        if (started_[r][i] >= 0 && finished_[r][i] < 0 && may_finish({r, i})) moved = true;
      }
    return moved;
  }

  bool may_start(Id id) {
    const auto [r, i] = id;
    double at = 0;
    for (int wait : lists_[r][i].waits) {
      const double t = finished_[r][static_cast<std::size_t>(wait)];
      if (t < 0) return false;
      at = std::max(at, t);
    }
    const auto queue = instruction(id).queue;
    const bool posting = !program::runs_one_at_a_time(queue);
    for (std::size_t j = i; j-- > 0;) {
      if (instruction({r, j}).queue != queue) continue;
      const double before = posting ? started_[r][j] : finished_[r][j];
      if (before < 0) return false;
      at = std::max(at, before);
      break;
    }
    started_[r][i] = at;
    return true;
  }

  bool may_finish(Id id) {
    const auto& s = instruction(id);
    if (s.as<program::MessageEnd>() != nullptr) return may_move(id);
    if (s.as<program::Collective>() != nullptr) return may_meet(id);
    finished_[id.first][id.second] =
        started_[id.first][id.second] + cost_.compute(program_, class_of(id.first), s, sequences(id)).time.value;
    return true;
  }

  const program::MessageEnd& message(Id id) const { return *instruction(id).as<program::MessageEnd>(); }
  const program::Collective& collective(Id id) const { return *instruction(id).as<program::Collective>(); }
  std::size_t peer_of(Id id) const { return program_.ranks[id.first].peers[static_cast<std::size_t>(message(id).peer)].index(); }

  /// Instructions of a rank that send to (or receive from) `peer`, in order.
  std::vector<Id> messages(std::size_t rank, std::size_t peer, bool sends) const {
    std::vector<Id> found;
    for (std::size_t i = 0; i < lists_[rank].size(); ++i)
      if ((sends ? instruction({rank, i}).sends() : instruction({rank, i}).receives()) && peer_of({rank, i}) == peer)
        found.push_back({rank, i});
    return found;
  }

  bool may_move(Id id) {
    const bool sends = message(id).sends();
    const std::size_t from = sends ? id.first : peer_of(id), to = sends ? peer_of(id) : id.first;
    const auto sent = messages(from, to, true), received = messages(to, from, false);
    const auto& own = sends ? sent : received;
    const auto n = static_cast<std::size_t>(std::ranges::find(own, id) - own.begin());
    if (n >= sent.size() || n >= received.size()) return false;
    const auto [sr, si] = sent[n];
    const auto [rr, ri] = received[n];
    if (started_[sr][si] < 0 || started_[rr][ri] < 0) return false;
    const double before = n == 0 ? 0 : finished_[sr][sent[n - 1].second];
    if (before < 0) return false;
    const Bytes bytes = message(sent[n]).size.of(sequences(sent[n]));
    finished_[sr][si] = finished_[rr][ri] = std::max({started_[sr][si], started_[rr][ri], before}) +
                                            cost_.message(Rank{static_cast<int>(from)}, Rank{static_cast<int>(to)}, bytes).time.value;
    return true;
  }

  int group_of(Id id) const { return program_.ranks[id.first].groups[static_cast<std::size_t>(collective(id).group)]; }

  bool may_meet(Id id) {
    const int group = group_of(id);
    const auto collectives = [&](std::size_t rank) {
      std::vector<Id> found;
      for (std::size_t i = 0; i < lists_[rank].size(); ++i)
        if (instruction({rank, i}).as<program::Collective>() != nullptr && group_of({rank, i}) == group) found.push_back({rank, i});
      return found;
    };
    const auto own = collectives(id.first);
    const auto n = static_cast<std::size_t>(std::ranges::find(own, id) - own.begin());
    std::vector<Id> partners;
    double start = 0, seconds = 0;
    for (Rank member : program_.groups[static_cast<std::size_t>(group)].members) {
      const auto theirs = collectives(member.index());
      if (n >= theirs.size() || started_[theirs[n].first][theirs[n].second] < 0) return false;
      partners.push_back(theirs[n]);
      start = std::max(start, started_[theirs[n].first][theirs[n].second]);
      seconds = std::max(seconds, collective_seconds(theirs[n], group));
    }
    for (const auto& [r, i] : partners) finished_[r][i] = start + seconds;
    return true;
  }

  double collective_seconds(Id id, int group) const {
    using enum program::CollectiveKind;
    const bool per_microbatch = instruction(id).per_microbatch;
    const auto kind = collective(id).kind;
    const Bytes bytes = collective(id).size.of(per_microbatch ? sequences(id) : 0);
    const bool in_passes = (kind == all_reduce || kind == reduce_scatter) && per_microbatch;
    const Bytes element = kind == reduce_scalars                   ? Bytes{8}
                          : in_passes || kind == all_gather_shards ? element_size(program_.plan.precision)
                                                                   : Bytes{4};
    return cost_.collective(kind, program_.groups[static_cast<std::size_t>(group)], bytes, element).time.value;
  }

  const program::Program& program_;
  const simulate::InstructionCost& cost_;
  std::vector<std::vector<program::IssuedInstruction>> lists_;
  std::vector<std::vector<double>> started_, finished_;
};

}  // namespace flotilla::fixture
