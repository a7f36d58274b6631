#pragma once
// Private: one message of an operation, with its size and a name for its other end.
#include <cstddef>
#include <string>

#include "flotilla/comm/world.hpp"

namespace flotilla::comm {

/// A message to or from a fixed peer with a fixed tag that is started again and again. A message of no bytes is not sent at all: both ends
/// know its size.
class Transfer {
 public:
  enum class Direction { send, receive };
  Transfer(const World& world, const mpi::Communicator& channel, Direction direction, Rank peer, int tag);

  enum class Content { whole, none };
  /// Without content a message goes out that is empty; who receives it takes that for done.
  void start_send(const std::byte* data, std::int64_t bytes, Content content = Content::whole);
  void start_receive(std::byte* data, std::int64_t bytes);
  /// True when nothing is in flight. Throws Error naming the peer; Error{internal} when a message is neither empty nor of the size
  /// expected.
  bool done();
  bool in_flight() const noexcept { return request_.active(); }
  Rank peer() const noexcept { return peer_; }
  /// "receive 4.0 KiB from rank 3 on n2".
  std::string describe() const;

 private:
  const World* world_;
  const mpi::Communicator* channel_;
  Direction direction_;
  Rank peer_;
  int tag_;
  std::int64_t bytes_ = 0;
  mpi::Request request_;
};

}  // namespace flotilla::comm
