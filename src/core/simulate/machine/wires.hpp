#pragma once
#include <vector>

#include "flotilla/simulate/instruction_cost.hpp"
#include "rank_partition.hpp"

namespace flotilla::simulate {

/// Who uses the cards by which messages leave and enter the simulated hosts (EquivalentRanks::host), and the uplinks by which they leave
/// and enter zones (EquivalentRanks::uplink). A wire is one way of one host or uplink. Its users are
/// - streams: the messages of one kind by one folded slot. As many equal ones as ranks of that kind stand there move together;
/// - kinds of groups: the collectives of as many equal groups as meet there.
/// Users are numbered: streams by stream(), then kinds of groups by user_of_group().
class Wires {
 public:
  Wires(const program::Program&, const RankPartition&, const InstructionCost&);

  int stream(int kind, int slot) const { return first_stream_[static_cast<std::size_t>(kind)] + slot; }
  std::size_t streams() const { return streams_; }
  int user_of_group(int group) const { return static_cast<int>(streams_) + group; }
  std::size_t users() const { return users_.size(); }
  std::size_t wires() const { return wanted_.size(); }

  /// Equal messages, or groups, that share a host's cards or an uplink with this one, itself included. What they share among themselves
  /// is in their cost (InstructionCost).
  const Flows& flows(int user) const { return user_at(user).flows; }
  /// Of the link that it uses.
  int lanes(int user) const { return user_at(user).lanes; }
  /// Others may share its cards or uplinks, and these have not room for all at once.
  bool contended(int user) const { return user_at(user).contended; }

  /// The part of a wire that a user wants while it moves, at the full rate of its cards.
  struct WireLoad {
    int wire = -1;
    double share = 0;
    bool own = true;  ///< on this wire it moves; on others it stands for its equals, which other simulated places see
  };
  const std::vector<WireLoad>& loads(int user) const { return user_at(user).loads; }
  /// How many times longer than one message alone its flows take: at least 1.
  double slowdown(int user) const { return user_at(user).slowdown; }

 private:
  struct User {
    Flows flows;
    int lanes = 1;
    double slowdown = 1;
    bool contended = false;
    std::vector<WireLoad> loads;
  };
  const User& user_at(int user) const { return users_[static_cast<std::size_t>(user)]; }

  /// Where wires are: hosts, uplinks.
  struct WirePlaces {
    const std::vector<PlaceKind>& kinds;
    int EquivalentRanks::*own;
    int first_wire = 0;
  };
  /// Of ranks of one kind: which way they pass, how many send together.
  struct Senders {
    std::size_t kind = 0;
    int direction = 0, divisor = 1;
  };
  void add_streams(std::size_t kind);
  void add_stream(std::size_t kind, std::size_t slot, bool once);
  int add_loads(User&, const WirePlaces&, const Senders&, double room) const;
  void add_group(std::size_t group);
  int add_group_loads(User&, const WirePlaces&, std::size_t group, double room) const;
  bool spans(const program::Group&, bool uplinks) const;
  int equal_groups_on(const PlaceKind&, std::size_t group) const;
  void find_contention();

  const program::Program& program_;
  const RankPartition& kinds_;
  const InstructionCost& cost_;
  const WirePlaces hosts_, uplinks_;
  std::size_t streams_ = 0;
  std::vector<int> first_stream_;  ///< by kind
  std::vector<User> users_;
  std::vector<double> wanted_;  ///< by wire: the shares of all users together
};

}  // namespace flotilla::simulate
