#pragma once
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "flotilla/comm/device_group.hpp"
#include "flotilla/comm/group.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/gpu/device.hpp"
#include "flotilla/program/launch_order.hpp"
#include "flotilla/train/options.hpp"

namespace flotilla::train {

/// What connects the ranks of a trainer: the program's groups over MPI, and, between ranks on GPUs, the same groups over NCCL, with a group
/// of two for each pair that exchanges messages, for either direction. What NCCL does not connect goes through the hosts' memory, by MPI.
class Connections {
 public:
  /// Collective over `active`; `gpu`: this rank's, or null. `evaluation` may be null; it has the groups of `training`. Of
  /// the options: nccl, nccl_share, deadline. Throws AgreedError when a group fails its proof over MPI. One that fails over NCCL stays with
  /// MPI, which its first member says.
  Connections(const comm::World& active, const program::Program& training, const program::Program* evaluation, const gpu::Device* gpu,
              const Options&);
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;
  /// All members leave what NCCL connects, or give it up where that fails.
  ~Connections();

  /// Over MPI, by index as in the program.
  const comm::Groups& groups() const { return groups_; }
  /// What goes from GPU to GPU. The same answers on every rank.
  program::IsLaunched launched(const program::Program&) const;
  /// This rank's group for such an instruction.
  comm::DeviceGroup& device_group(const program::Program&, const program::Instruction&) const;
  /// "; NCCL 2.28.9, 3 groups of GPUs": of this rank; empty: none.
  std::string description() const;
  /// After an error: ends what GPUs exchange, all groups as one. An exchange that waits for a lost rank would otherwise never end.
  void give_up() noexcept;

 private:
  /// Of a rank's instruction, among all groups; -1: none.
  int group_of(const program::Program&, Rank, const program::Instruction&) const;
  void find_devices(const gpu::Device*);
  void add_pairs(const program::Program&, std::vector<program::Group>& groups);
  std::vector<bool> wanted(const program::Program& training, const std::vector<program::Group>& groups) const;
  void connect_devices(const program::Program& training, const std::vector<program::Group>& groups, const gpu::Device*);

  const comm::World& active_;
  const Seconds deadline_;
  const std::optional<NcclShare> share_;
  std::vector<bool> has_device_;              ///< by rank: a GPU and NCCL
  std::map<std::pair<int, int>, int> pairs_;  ///< (from, to) -> group
  comm::Groups groups_;
  std::vector<std::unique_ptr<comm::DeviceGroup>> device_groups_;  ///< this rank's, by group
  std::vector<bool> connected_;                                    ///< by group: by NCCL
};

}  // namespace flotilla::train
