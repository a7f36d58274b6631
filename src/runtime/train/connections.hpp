#pragma once
#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "flotilla/comm/device_group.hpp"
#include "flotilla/comm/process_group.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/gpu/device.hpp"
#include "flotilla/program/launch_order.hpp"
#include "flotilla/train/options.hpp"

namespace flotilla::train {

/// What connects the ranks of a trainer: the program's groups over MPI, and, between ranks on GPUs, the same groups from device to device,
/// by NCCL or by MPI on device memory, with a group of two for each pair that exchanges messages, for either direction. What neither
/// connects goes through the hosts' memory, by MPI.
class Connections {
 public:
  /// Collective over `active`; `gpu`: this rank's, or null. `evaluation` may be null; it has the groups of `training`. Of
  /// the options: transport, transports, deadline. Throws AgreedError when a group fails its proof between hosts, and where the one
  /// transport is MPI on device memory, of which a GPU's library takes none. A group that fails its proof between devices goes through the
  /// hosts' memory, which its first member says.
  Connections(const comm::World& active, const program::Program& training, const program::Program* evaluation,
              const gpu::DeviceContext* gpu, const Options&);
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;
  /// All members leave what NCCL connects, or give it up where that fails.
  ~Connections();

  /// Over MPI, by index as in the program.
  const comm::Groups& groups() const { return groups_; }
  /// What goes from GPU to GPU by NCCL. The same answers on every rank.
  program::IsLaunched launched(const program::Program&) const;
  /// This rank's group for such an instruction.
  comm::DeviceGroup& device_group(const program::Program&, const program::Instruction&) const;
  /// Whether MPI takes this rank's operands of the instruction from its GPU's memory ...
  bool on_device_memory(const program::Program&, const program::Instruction&) const;
  /// ... and its group, for a collective.
  comm::ProcessGroup& device_memory_group(const program::Program&, const program::Instruction&) const;
  /// "; NCCL 2.28.9, 3 groups of GPUs; MPI on device memory, 1 group of GPUs": of this rank; empty: none.
  std::string description() const;
  /// After an error: ends what GPUs exchange, all groups as one. An exchange that waits for a lost rank would otherwise never end.
  void give_up() noexcept;

 private:
  /// Of a rank's instruction, among all groups; -1: none.
  int group_of(const program::Program&, Rank, const program::Instruction&) const;
  bool wants(cluster::Transport) const;
  /// Of a group of the training program.
  cluster::Transport chosen_for(std::size_t group) const;
  cluster::Transport chosen_for(std::pair<int, int> ends) const;
  void find_devices(cluster::Transport, const gpu::DeviceContext*);
  bool reaches(cluster::Transport, const std::vector<Rank>&) const;
  void add_pairs(const program::Program&, std::vector<program::Group>& groups);
  std::vector<bool> wanted(const program::Program& training, const std::vector<program::Group>& groups, cluster::Transport) const;
  void connect_devices(const program::Program& training, const std::vector<program::Group>& groups, const gpu::DeviceContext*);

  const comm::World& active_;
  const Seconds deadline_;
  const cluster::Transport transport_;
  const std::optional<ChosenTransports> transports_;
  std::array<std::vector<bool>, cluster::transport_count> has_;  ///< by transport between devices and rank: a GPU, and what it takes
  std::map<std::pair<int, int>, int> pairs_;                     ///< (from, to) -> group
  comm::Groups groups_;
  std::vector<std::unique_ptr<comm::DeviceGroup>> device_groups_;  ///< this rank's over NCCL, by group
  comm::Groups device_memory_groups_;                              ///< this rank's over MPI on device memory, by group
  std::vector<cluster::Transport> connected_;                      ///< by group
};

}  // namespace flotilla::train
