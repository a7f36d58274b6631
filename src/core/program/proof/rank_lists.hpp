#pragma once
// Private: what some ranks of a program do, as the proofs look at it.
#include <map>
#include <utility>
#include <vector>

#include "flotilla/program/program.hpp"

namespace flotilla::program {

struct MessageRecord {
  int rank, position;
  int channel;
  std::int64_t first;  ///< byte of the step's activations at that boundary; where a program does not say whose sequences: microbatch
  std::int64_t bytes;
  bool same_as(const MessageRecord& o) const { return channel == o.channel && first == o.first && bytes == o.bytes; }
};
/// (from, to) -> (sends, receives)
using MessageEnds = std::map<std::pair<int, int>, std::pair<std::vector<MessageRecord>, std::vector<MessageRecord>>>;

struct CollectiveRecord {
  int position, group;
  std::int64_t bytes;
  CollectiveKind kind;
  bool operator==(const CollectiveRecord& o) const { return group == o.group && bytes == o.bytes && kind == o.kind; }
};

/// The issued instructions of some ranks.
struct RankLists {
  const Program& program;
  std::vector<int> ranks;  ///< ascending
  std::map<int, std::vector<IssuedInstruction>> of;

  RankLists(const Program& of_program, std::vector<int> chosen);

  const RankClass& class_of(int rank) const {
    return program.classes[static_cast<std::size_t>(program.ranks[static_cast<std::size_t>(rank)].rank_class)];
  }
  const Instruction& instruction(int rank, int position) const {
    return class_of(rank).instructions[static_cast<std::size_t>(of.at(rank)[static_cast<std::size_t>(position)].instruction)];
  }
  int peer(int rank, const MessageEnd& message) const {
    return program.ranks[static_cast<std::size_t>(rank)].peers[static_cast<std::size_t>(message.peer)].value;
  }
  int group(int rank, const Collective& collective) const {
    return program.ranks[static_cast<std::size_t>(rank)].groups[static_cast<std::size_t>(collective.group)];
  }
  /// "rank 3 'send activation' microbatch 2".
  std::string describe(int rank, int position) const;

  MessageEnds messages() const;
  /// By rank, in issue order.
  std::map<int, std::vector<CollectiveRecord>> collectives() const;
};

/// Of each kind of replica one, with whom it talks to; all ranks where these are few.
std::vector<int> representatives(const Program&);
/// All that have work.
std::vector<int> working_ranks(const Program&);

}  // namespace flotilla::program
