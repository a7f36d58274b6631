#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "flotilla/base/units.hpp"
#include "flotilla/comm/world.hpp"

namespace flotilla::comm {

/// One communication of a program's site with one instance of its buffers: made once before the first step, started many times. Neither
/// start() nor progress() blocks or allocates. A site whose buffers have several copies has one for each: several may be in
/// flight at once. All operations of one channel belong to one thread, which polls them.
class PersistentOperation {
 public:
  virtual ~PersistentOperation() = default;
  /// Begins with `size` bytes, at most the capacity. Not while it is in flight.
  virtual void start(Bytes size) = 0;
  /// The same for a step that this rank has given up: its messages go out empty where that can be, so that nobody waits for them longer
  /// than need be. Who receives them finds in his buffers what was there.
  virtual void start_drained(Bytes size) { start(size); }
  /// Moves it on; true when finished, from when its buffers may be used (and when it was never started). Throws Error{communication}, or
  /// Error{internal} when the message has neither the size started nor none.
  virtual bool progress() = 0;
  /// "receive 4 KiB from rank 3 on n2", with what it still waits for. For messages on deadlines; allocates.
  virtual std::string describe() const = 0;
};

/// Messages between the same two ranks on the same channel arrive in the order started, so both sides start them in the same order;
/// channels are independent of each other. `channel` is a number from 0 to world.largest_tag(), checked here. `data` and `world` must
/// outlive the operation.
std::unique_ptr<PersistentOperation> make_send(const World& world, Rank peer, int channel, const std::byte* data, Bytes capacity);
std::unique_ptr<PersistentOperation> make_receive(const World& world, Rank peer, int channel, std::byte* data, Bytes capacity);

}  // namespace flotilla::comm
