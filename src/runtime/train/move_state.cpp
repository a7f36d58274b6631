#include "flotilla/train/move_state.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/mpi/backoff.hpp"
#include "state_stream.hpp"

namespace flotilla::train {
namespace {

constexpr std::int64_t message_bytes = program::migration_message.count;
static_assert(message_bytes % 4 == 0);  // a number's bytes stay together
constexpr int tag = 0;                  // messages of one pair of ranks come in the order sent

/// One direction of this rank: its transfers in the migration's order, cut into messages, the oldest of which ends first.
class TransferLane {
 public:
  TransferLane(const comm::World& world, const Shelves& shelves, StreamEnd end) : world_{world}, shelves_{shelves}, end_{end} {}

  void add(const program::StateTransfer& transfer) { transfers_.push_back(&transfer); }
  void open() {
    if (transfers_.empty()) return;
    for (auto& slot : slots_) slot.message = std::make_unique_for_overwrite<std::array<std::byte, message_bytes>>();
    next_transfer();
  }
  /// Ends and starts what it can; true when something has moved.
  bool advance() {
    bool moved = false;
    while (oldest_ < started_ && finish_oldest()) moved = true;
    while (stream_ && started_ - oldest_ < program::migration_window) {
      start();
      moved = true;
    }
    return moved;
  }
  bool done() const { return !stream_ && oldest_ == started_; }
  Bytes bytes() const { return bytes_; }
  std::string waiting_for() const {
    if (oldest_ == started_) return {};
    const auto& slot = slots_[static_cast<std::size_t>(oldest_ % program::migration_window)];
    return text(end_ == StreamEnd::from ? "send " : "receive ", Bytes{slot.bytes}, end_ == StreamEnd::from ? " to " : " from ",
                world_.name(Rank{slot.peer}));
  }

 private:
  struct TransferSlot {
    std::unique_ptr<std::array<std::byte, message_bytes>> message;
    mpi::Request request;
    int peer = -1;
    std::int64_t bytes = 0;
    std::shared_ptr<StateStream> stream;
    std::span<std::byte> values() const { return {message->data(), static_cast<std::size_t>(bytes)}; }
  };

  void next_transfer() {
    stream_.reset();
    if (at_ == transfers_.size()) return;
    const auto& transfer = *transfers_[at_++];
    peer_ = (end_ == StreamEnd::from ? transfer.to : transfer.from).value;
    stream_ = std::make_shared<StateStream>(transfer, shelves_, end_);
    unstarted_ = stream_->left();
  }

  void start() {
    auto& slot = slots_[static_cast<std::size_t>(started_ % program::migration_window)];
    slot.bytes = std::min(message_bytes, unstarted_);
    slot.peer = peer_;
    slot.stream = stream_;
    if (end_ == StreamEnd::from) {
      stream_->read(slot.values());
      slot.request = world_.messages().send(slot.values(), peer_, tag);
    } else {
      slot.request = world_.messages().receive(slot.values(), peer_, tag);
    }
    ++started_;
    unstarted_ -= slot.bytes;
    if (unstarted_ == 0) next_transfer();
  }

  bool finish_oldest() {
    auto& slot = slots_[static_cast<std::size_t>(oldest_ % program::migration_window)];
    if (!slot.request.test()) return false;
    const Bytes size{slot.bytes};
    if (end_ == StreamEnd::to) {
      FLOTILLA_REQUIRE(slot.request.received() == size, ErrorKind::internal, waiting_for(), ": ", slot.request.received().count,
                       " bytes came");
      slot.stream->write(slot.values());
    }
    bytes_ = bytes_ + size;
    slot.stream.reset();
    ++oldest_;
    return true;
  }

  const comm::World& world_;
  const Shelves& shelves_;
  const StreamEnd end_;
  std::vector<const program::StateTransfer*> transfers_;
  std::size_t at_ = 0;
  int peer_ = -1;
  std::shared_ptr<StateStream> stream_;  // of which messages are being started
  std::int64_t unstarted_ = 0;           // bytes of it
  std::array<TransferSlot, program::migration_window> slots_;
  std::int64_t started_ = 0, oldest_ = 0;  // messages
  Bytes bytes_;
};

void finish(TransferLane& out, TransferLane& in, Seconds deadline) {
  Seconds last_movement = now();
  for (mpi::Backoff backoff; !out.done() || !in.done();) {
    const bool sent = out.advance(), received = in.advance();
    if (sent || received) {
      last_movement = now();
      backoff.reset();
      continue;
    }
    if (now() - last_movement > deadline)
      throw Error{ErrorKind::communication,
                  text("moving the training state: nothing has moved for ", deadline, ": ",
                       in.done() ? out.waiting_for() : in.waiting_for(), "; a peer or link is down or very slow (--comm.deadline)")};
    backoff.pause();
  }
}

}  // namespace

MoveReport move_state(const comm::World& world, const program::Migration& migration, const checkpoint::LocalState& from,
                      const checkpoint::LocalState& to, Seconds deadline) {
  const Seconds begin = now();
  const Shelves old{from}, fresh{to};
  // Given up when an error passes: a send that cannot be withdrawn goes on reading its buffer, and the job ends then.
  auto out = std::make_unique<TransferLane>(world, old, StreamEnd::from);
  auto in = std::make_unique<TransferLane>(world, fresh, StreamEnd::to);
  for (const auto& transfer : migration.transfers) {
    if (transfer.stays()) continue;
    if (transfer.from == world.rank()) out->add(transfer);
    if (transfer.to == world.rank()) in->add(transfer);
  }
  try {
    out->open();
    in->open();
    out->advance();
    for (const auto& transfer : migration.transfers)
      if (transfer.stays() && transfer.from == world.rank()) keep(transfer, old, fresh);
    finish(*out, *in, deadline);
    for (const auto& transfer : migration.within)
      if (transfer.to == world.rank()) keep(transfer, fresh, fresh);
  } catch (...) {
    static_cast<void>(out.release());
    throw;
  }
  return {out->bytes(), in->bytes(), now() - begin};
}

}  // namespace flotilla::train
