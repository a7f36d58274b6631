#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "flotilla/base/units.hpp"
#include "flotilla/mpi/request.hpp"

namespace flotilla::mpi {

/// Owner of an MPI communicator. A moved-from one may only be assigned or destroyed. Messages may be sent and tested from any thread;
/// collectives on one communicator come from one thread at a time and in the same order on every rank, so whoever communicates from a
/// thread of its own takes a duplicate of its own.
class Communicator {
 public:
  struct Native;  ///< holds the MPI_Comm; see the room's private native.hpp

  explicit Communicator(std::unique_ptr<Native> native);
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  /// Largest tag that send() and receive() take; at least 32767, and not the same everywhere.
  int largest_tag() const noexcept { return largest_tag_; }

  /// Same ranks, separate traffic. Collective. Throws Error{communication} when `deadline` passes.
  Communicator duplicate(Seconds deadline) const;
  /// The listed ranks of this communicator, numbered in the order listed. Collective over them alone; this rank must be among them.
  /// `tag` tells apart subsets made at the same time from different threads. Blocks until all of them call it.
  Communicator subset(std::span<const int> ranks, int tag = 0) const;

  /// One message; never blocks. Messages between the same two ranks with the same tag are received in the order sent. Any size.
  Request send(std::span<const std::byte> data, int peer, int tag) const;
  /// Receives one message of at most data.size() bytes; a longer one is an Error{communication} from test().
  Request receive(std::span<std::byte> data, int peer, int tag) const;

  /// Finished when every rank has started it. Collective, non-blocking.
  Request barrier() const;
  /// `all` takes size() x mine.size() bytes in rank order; every rank gives the same size. Collective, non-blocking.
  Request all_gather(std::span<const std::byte> mine, std::span<std::byte> all) const;
  /// The root's bytes on every rank, which all give the same size. Collective, non-blocking.
  Request broadcast(std::span<std::byte> data, int root) const;

  const Native& native() const noexcept { return *native_; }

 private:
  std::unique_ptr<Native> native_;
  int rank_ = 0, size_ = 1, largest_tag_ = 0;
};

/// Collectives that wait. Each throws Error{communication} when `deadline` (from this rank's arrival) passes: then some rank did not
/// come, and the communicator must not be used for collectives any more. comm::agree() tells who.
void barrier(const Communicator&, Seconds deadline);
/// size() x mine.size() bytes in rank order; every rank gives the same size.
std::vector<std::byte> all_gather_bytes(const Communicator&, std::span<const std::byte> mine, Seconds deadline);
/// Every rank's text, by rank.
std::vector<std::string> all_gather_strings(const Communicator&, const std::string& mine, Seconds deadline);
/// The root's text on every rank; the others' `value` is ignored.
std::string broadcast_string(const Communicator&, const std::string& value, int root, Seconds deadline);

/// Every rank's value, by rank.
template <class T>
requires std::is_trivially_copyable_v<T> std::vector<T> all_gather(const Communicator& communicator, const T& mine, Seconds deadline) {
  const auto bytes = all_gather_bytes(communicator, std::as_bytes(std::span{&mine, 1}), deadline);
  std::vector<T> all(static_cast<std::size_t>(communicator.size()));
  std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span{all}).begin());
  return all;
}

/// The root's value on every rank.
template <class T>
requires std::is_trivially_copyable_v<T> T broadcast_value(const Communicator& communicator, const T& mine, int root, Seconds deadline) {
  const auto bytes = broadcast_string(communicator, {reinterpret_cast<const char*>(&mine), sizeof mine}, root, deadline);
  T value{};
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

}  // namespace flotilla::mpi
