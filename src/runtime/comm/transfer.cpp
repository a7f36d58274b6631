#include "transfer.hpp"

#include "flotilla/base/error.hpp"

namespace flotilla::comm {

Transfer::Transfer(const World& world, const mpi::Communicator& channel, Direction direction, Rank peer, int tag)
    : world_{&world}, channel_{&channel}, direction_{direction}, peer_{peer}, tag_{tag} {}

void Transfer::start_send(const std::byte* data, std::int64_t bytes, Content content) {
  bytes_ = bytes;
  if (bytes > 0) request_ = channel_->send({data, content == Content::none ? 0 : static_cast<std::size_t>(bytes)}, peer_.value, tag_);
}

void Transfer::start_receive(std::byte* data, std::int64_t bytes) {
  bytes_ = bytes;
  if (bytes > 0) request_ = channel_->receive({data, static_cast<std::size_t>(bytes)}, peer_.value, tag_);
}

bool Transfer::done() {
  if (!request_.active()) return true;
  try {
    if (!request_.test()) return false;
  } catch (const Error& error) {
    throw Error{error.kind(), text(describe(), ": ", error.what())};
  }
  const bool whole = direction_ == Direction::send || request_.received() == Bytes{bytes_};
  const bool drained = request_.received() == Bytes{0};  // its sender has given up the step
  FLOTILLA_REQUIRE(whole || drained, ErrorKind::internal, describe(), ": ", request_.received().count, " bytes came, ", bytes_,
                   " were expected");
  return true;
}

std::string Transfer::describe() const {
  const bool sends = direction_ == Direction::send;
  return text(sends ? "send " : "receive ", Bytes{bytes_}, sends ? " to " : " from ", world_->name(peer_));
}

}  // namespace flotilla::comm
