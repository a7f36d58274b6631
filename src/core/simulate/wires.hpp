#pragma once
#include <vector>

#include "flotilla/simulate/instruction_cost.hpp"
#include "kinds.hpp"

namespace flotilla::simulate {

/// The cards by which messages leave and enter the simulated hosts (Kind::host), for each way a set of lanes. Who uses them:
/// - streams: the messages of one kind by one folded slot. As many equal ones as ranks of that kind stand on the host move together;
/// - collectives of one kind of group, likewise.
/// Users that find lanes enough for all of them together never wait for each other; the others are served in the order in which they are
/// ready, each taking its lanes for as long as its bytes need.
class Wires {
 public:
  Wires(const program::Program&, const Kinds&, const InstructionCost&);

  int stream(int kind, int slot) const { return first_stream_[static_cast<std::size_t>(kind)] + slot; }
  std::size_t streams() const { return streams_.size(); }

  /// Equal messages that share a host's cards with the one of this stream, itself included.
  int flows(int stream) const { return streams_[static_cast<std::size_t>(stream)].flows; }
  /// Equal groups that share hosts' cards with this one.
  int flows_of_group(int group) const { return groups_[static_cast<std::size_t>(group)].flows; }

  /// Others may be in its way.
  bool contended(int stream) const { return streams_[static_cast<std::size_t>(stream)].contended; }
  bool group_contended(int group) const { return groups_[static_cast<std::size_t>(group)].contended; }

  /// When what is ready at `ready` and takes its lanes for `seconds` begins to move: out of the sender's host, into the receiver's, and
  /// through all hosts of a group. To be called in order of `ready`.
  double leave(int stream, double ready, double seconds) { return book(streams_[static_cast<std::size_t>(stream)].out, ready, seconds); }
  double arrive(int stream, double ready, double seconds) { return book(streams_[static_cast<std::size_t>(stream)].in, ready, seconds); }
  double gather(int group, double ready, double seconds);

 private:
  struct Load {
    int wire = -1;
    int messages = 1;
    int link_lanes = 1;
    int lanes = 1;  ///< of the wire's
  };
  /// The first load is on the wires that decide when its user moves; others stand for equal users on other simulated hosts.
  struct Stream {
    int flows = 1;
    bool contended = false;
    std::vector<Load> out, in;
  };
  struct GroupUse {
    int flows = 1;
    bool contended = false;
    std::vector<Load> loads;
  };
  struct Wire {
    int lanes = 1;             ///< those of its best link; a message of a link with fewer takes several
    double wanted = 0;         ///< share of the wire that all users together would take
    std::vector<double> free;  ///< by lane, where more than all is wanted: the end of what it was taken for
  };

  void add_streams(std::size_t kind);
  void add_stream(std::size_t kind, std::size_t slot, bool once);
  std::vector<Load> loads_of(std::size_t kind, int direction, int divisor, int link_lanes) const;
  void add_group(std::size_t group);
  int equal_groups_on(const HostKind&, std::size_t group) const;
  void size_wires();
  bool crowded(const Load&) const;
  double book(const std::vector<Load>&, double ready, double seconds);
  double take(const Load&, double ready, double seconds);
  template <class Visit>
  void visit_loads(Visit visit);

  const program::Program& program_;
  const Kinds& kinds_;
  const InstructionCost& cost_;
  std::vector<int> first_stream_;  ///< by kind
  std::vector<Stream> streams_;
  std::vector<GroupUse> groups_;
  std::vector<Wire> wires_;  ///< by host kind and direction
};

}  // namespace flotilla::simulate
