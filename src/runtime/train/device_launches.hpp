#pragma once
#include <functional>
#include <string>
#include <vector>

#include "binding.hpp"
#include "connections.hpp"
#include "flotilla/train/options.hpp"

namespace flotilla::train {

/// The messages and collectives of a binding that go from GPU to GPU, in the order in which the program has all ranks launch them. One
/// thread.
class DeviceLaunches {
 public:
  /// Throws Error{internal} where the order of launches fails its proof. What is handed over outlives this.
  DeviceLaunches(const Binding&, const Connections&, const Options&);

  /// Places among the issued instructions.
  const std::vector<int>& order() const { return order_; }
  /// The launch before it over the same group, whatever its queue: a group exchanges one thing after the other. -1: none.
  int before(int issued) const { return launches_[static_cast<std::size_t>(issued)].before; }
  /// Enqueues what the instruction exchanges.
  void enqueue(int issued, const gpu::Stream& stream) const { launches_[static_cast<std::size_t>(issued)].enqueue(stream); }
  /// Whether `event`, recorded behind it, has come. Throws Error{communication} with what NCCL has noticed: a peer gone.
  bool done(int issued, const gpu::Event& event) const {
    return launches_[static_cast<std::size_t>(issued)].group->communicator().done(event);
  }
  /// "data group of rank 0 on n1, rank 2 on n2".
  const std::string& partners(int issued) const { return launches_[static_cast<std::size_t>(issued)].group->communicator().name(); }

 private:
  using Enqueue = std::function<void(const gpu::Stream&)>;
  struct Launch {
    comm::DeviceGroup* group = nullptr;
    Enqueue enqueue;
    int before = -1;
  };
  Enqueue message(const BoundInstruction&, const program::MessageEnd&, comm::DeviceGroup&) const;
  Enqueue collective(const BoundInstruction&, const program::Collective&, comm::DeviceGroup&) const;
  Enqueue gather(const BoundInstruction&, const program::Collective&, comm::DeviceGroup&) const;
  gpu::DevicePointer operand(const BoundInstruction&, program::Role) const;

  const Binding& binding_;
  std::vector<int> order_;
  std::vector<Launch> launches_;  ///< by issued instruction
};

}  // namespace flotilla::train
