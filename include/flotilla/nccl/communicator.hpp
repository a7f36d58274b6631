#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "flotilla/base/element_type.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/gpu/device.hpp"

namespace flotilla::nccl {

/// Names a communicator that is to be formed. Made by one member, which gives it to all; dies with the process that made it.
struct UniqueId {
  std::array<char, 128> bytes{};
};
/// Local. Throws Error{unavailable} without NCCL. It opens a socket and works without a GPU: no proof of anything.
UniqueId make_unique_id();

/// One message of an exchange.
struct ExchangeMessage {
  enum class Direction : std::uint8_t { send, receive } direction;
  int peer;  ///< by index among the members
  gpu::DevicePointer at;
  Bytes size;
};

/// An ordered set of processes, one device each, whose devices exchange data. No call blocks: NCCL's calls return at once, are asked about
/// until `limit` is over, and what they enqueue runs on the stream given. Every member enqueues the same operations in the same order, and
/// a process the operations of all its communicators of one device from one thread. Errors are Error{communication}: call, communicator,
/// member, NCCL's own words.
class NcclCommunicator {
 public:
  /// Begins to join; collective over the members, but returns at once. `name` is for errors: "data group of rank 0 on n1, rank 2 on n2".
  static NcclCommunicator join(const gpu::DeviceContext&, const UniqueId&, int members, int index, std::string name, Seconds limit);
  /// Whether all have come. Throws when joining has failed.
  bool ready();
  /// Waits for that. Throws when one has not come within the limit of join(); abort_all() is what may follow then.
  void await_ready();

  int size() const noexcept;
  int index() const noexcept;
  const std::string& name() const noexcept;

  /// Member i's `size` bytes at all + i * size.
  void all_gather(gpu::DevicePointer mine, gpu::DevicePointer all, Bytes size, const gpu::Stream&);
  /// Sums in an order that NCCL chooses: other members, links or versions give other bits.
  void all_reduce(gpu::DevicePointer data, ElementType, std::int64_t count, const gpu::Stream&);
  /// Member j's `count` elements of the sum of everybody's size() * count.
  void reduce_scatter(gpu::DevicePointer all, gpu::DevicePointer mine, ElementType, std::int64_t count, const gpu::Stream&);
  /// All messages at once, so that none waits for another. Between two members they match in the order given.
  void exchange(std::span<const ExchangeMessage>, const gpu::Stream&);

  /// What NCCL has noticed since: a peer's process gone, a broken connection. Empty while all is well.
  std::string failure() const;
  /// Whether `event`, recorded after an operation, has come. Throws what failure() says.
  bool done(const gpu::Event& event) const;
  /// Waits for it. Throws when `limit` is over first.
  void await(const gpu::Event& event, Seconds limit) const;

  /// The good end: what was enqueued is done, all members leave. Throws after the limit of join().
  void leave();

 private:
  friend bool abort_all(std::span<const NcclCommunicator>, Seconds) noexcept;
  friend bool abort_every(Seconds) noexcept;
  struct State;
  explicit NcclCommunicator(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

/// Gives up what the communicators do, on their devices too, and ends them; the bad end of all communicators of a device at once, since the
/// operations of one may keep another's from ending. When a member is lost, every other member must. Runs beside the caller; false when it
/// is not done within `limit`: then only the process's end will do.
bool abort_all(std::span<const NcclCommunicator>, Seconds limit) noexcept;
/// The same with every communicator of this process, from any thread: before the process ends badly.
bool abort_every(Seconds limit) noexcept;

}  // namespace flotilla::nccl
