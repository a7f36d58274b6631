// Point-to-point operations: one message each.
#include "flotilla/base/error.hpp"
#include "flotilla/comm/persistent_operation.hpp"
#include "transfer.hpp"

namespace flotilla::comm {
namespace {

class PointToPoint : public PersistentOperation {
 public:
  PointToPoint(Transfer transfer, Bytes capacity) : transfer_{std::move(transfer)}, capacity_{capacity} {}
  bool progress() final { return transfer_.done(); }
  std::string describe() const final { return transfer_.describe(); }

 protected:
  void require_startable(Bytes size) const {
    FLOTILLA_ASSERT(!transfer_.in_flight(), "started twice: ", describe());
    FLOTILLA_ASSERT(size >= Bytes{0} && size <= capacity_, size.count, " bytes do not fit ", capacity_.count, ": ", describe());
  }
  Transfer transfer_;

 private:
  Bytes capacity_;
};

class Send final : public PointToPoint {
 public:
  Send(Transfer transfer, const std::byte* data, Bytes capacity) : PointToPoint{std::move(transfer), capacity}, data_{data} {}
  void start(Bytes size) override {
    require_startable(size);
    transfer_.start_send(data_, size.count);
  }
  void start_drained(Bytes size) override {
    require_startable(size);
    transfer_.start_send(data_, size.count, Transfer::Content::none);
  }

 private:
  const std::byte* data_;
};

class Receive final : public PointToPoint {
 public:
  Receive(Transfer transfer, std::byte* data, Bytes capacity) : PointToPoint{std::move(transfer), capacity}, data_{data} {}
  void start(Bytes size) override {
    require_startable(size);
    transfer_.start_receive(data_, size.count);
  }

 private:
  std::byte* data_;
};

Transfer on_channel(const World& world, Transfer::Direction direction, Rank peer, int channel) {
  FLOTILLA_REQUIRE(channel >= 0 && channel <= world.largest_tag(), ErrorKind::unavailable, "the program uses message channel ", channel,
                   ", and this MPI library has ", world.largest_tag() + std::int64_t{1});
  FLOTILLA_REQUIRE(peer.valid() && peer.value < world.size(), ErrorKind::internal, "no rank ", peer, " among ", world.size());
  return {world, world.messages(), direction, peer, channel};
}

}  // namespace

std::unique_ptr<PersistentOperation> make_send(const World& world, Rank peer, int channel, const std::byte* data, Bytes capacity) {
  return std::make_unique<Send>(on_channel(world, Transfer::Direction::send, peer, channel), data, capacity);
}

std::unique_ptr<PersistentOperation> make_receive(const World& world, Rank peer, int channel, std::byte* data, Bytes capacity) {
  return std::make_unique<Receive>(on_channel(world, Transfer::Direction::receive, peer, channel), data, capacity);
}

}  // namespace flotilla::comm
