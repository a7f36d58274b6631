#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "arena.hpp"
#include "flotilla/comm/persistent_operation.hpp"
#include "flotilla/comm/process_group.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/compute/backend.hpp"
#include "flotilla/program/host_memory.hpp"
#include "flotilla/program/launch_order.hpp"

namespace flotilla::train {

/// One instruction of this rank with its operands resolved: what the executor runs.
struct BoundInstruction {
  const program::Instruction* instruction = nullptr;
  int microbatch = 0;
  int sequences = 0;
  std::vector<int> waits;                          ///< positions in the list
  compute::Task task;                              ///< operands for every op; operation, layer, parts for computations
  comm::PersistentOperation* operation = nullptr;  ///< messages and collectives, by MPI
  bool launched = false;                           ///< goes from GPU to GPU by NCCL instead
  bool on_device = false;                          ///< MPI takes its operands from the GPU's memory
  Bytes size;                                      ///< of the message or collective
  bool awaited_by_other_thread = false;            ///< some instruction of the other thread waits for this one
};

class Connections;
class HostBuffers;

/// A program resolved for one rank: its instructions, its operations on the network, where its buffers are. The program must outlive it.
class Binding {
 public:
  /// `channel_base` keeps the messages of two programs apart. `host`: where messages find the buffers of an arena on a GPU; else nullptr.
  Binding(const program::Program&, Rank, const Arena&, const HostBuffers* host, const comm::World&, const Connections&, int channel_base);

  const program::Program& program() const { return program_; }
  const program::RankClass& rank_class() const { return class_; }
  const program::RankBinding& rank_binding() const { return binding_; }
  Rank rank() const { return rank_; }
  std::vector<BoundInstruction>& issued_instructions() { return instructions_; }
  const std::vector<BoundInstruction>& issued_instructions() const { return instructions_; }
  std::byte* buffer(int index, int microbatch = 0) const;
  /// Where the host finds it, and MPI, but for operations on device memory.
  std::byte* on_host(int index, int microbatch = 0) const;
  /// Over MPI, between hosts.
  comm::ProcessGroup& group_of(const program::Collective&) const;
  /// Of a token in what is gathered.
  Bytes token_bytes(const program::Instruction&, const program::Collective&) const;

 private:
  void bind(BoundInstruction&, const program::IssuedInstruction&, const program::IsLaunched& launched);
  void bind_layer(compute::Task&, const program::LayerOperation&) const;
  void bind_message(BoundInstruction&, const program::MessageEnd&);
  void bind_collective(BoundInstruction&, const program::Collective&);
  void bind_gather(BoundInstruction&, const program::Collective&, const program::Access&);
  /// Where MPI finds a buffer of the instruction.
  std::byte* operand(const BoundInstruction&, int buffer, int microbatch = 0) const;
  comm::ProcessGroup& group_of(const BoundInstruction&, const program::Collective&) const;
  comm::PersistentOperation* make_collective(const BoundInstruction&, const program::Collective&);
  std::vector<comm::PersistentOperation*>& instances_of(const program::Instruction&);
  comm::PersistentOperation* keep(std::unique_ptr<comm::PersistentOperation>);

  const program::Program& program_;
  const program::RankBinding& binding_;
  const program::RankClass& class_;
  const Rank rank_;
  const Arena& arena_;
  const HostBuffers* const host_;
  const comm::World& world_;
  const Connections& connections_;
  const int channel_base_;
  std::vector<std::vector<comm::PersistentOperation*>> of_instruction_;  ///< by instruction and instance: made once, started many times
  std::vector<std::unique_ptr<comm::PersistentOperation>> operations_;
  std::vector<BoundInstruction> instructions_;
};

/// Queues of messages and collectives run on the communication thread, compute and copy on the caller's.
inline bool on_comm_thread(const program::Instruction& instruction) { return program::moved_by_host(instruction); }

}  // namespace flotilla::train
