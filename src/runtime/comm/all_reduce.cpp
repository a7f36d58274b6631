// The fixed-order sum: pieces out, each summed by its owner in member order, sums back (program/collectives.hpp states it). Every message
// has a tag of its own operation and phase, so that operations may overtake each other.
#include <utility>
#include <vector>

#include "flotilla/base/error.hpp"
#include "mpi_operations.hpp"
#include "transfer.hpp"

namespace flotilla::comm {
namespace {

class DirectAllReduce final : public PersistentOperation {
 public:
  DirectAllReduce(const World& world, const ProcessGroup& group, int tag, std::unique_ptr<LocalWork> work, std::byte* data,
                  ElementType type, Bytes capacity, std::byte* staging);
  void start(Bytes size) override { begin(size, Transfer::Content::whole); }
  void start_drained(Bytes size) override { begin(size, Transfer::Content::none); }
  bool progress() override;
  std::string describe() const override;

 private:
  enum class ReducePhase { idle, collecting, summing, returning };
  /// The traffic with one other member.
  struct ReducePeer {
    int member;
    program::Piece piece;          // of the elements; theirs to sum
    Transfer piece_out, piece_in;  // first phase
    Transfer sum_out, sum_in;      // second phase
    bool waits_for_sum = false;    // sum_in has been started
  };

  void begin(Bytes size, Transfer::Content content);
  std::byte* at(std::int64_t element) const { return data_ + element * width_; }
  bool collect();
  void start_sum();
  void return_sums();
  bool take_sums();

  const ProcessGroup& group_;
  const std::unique_ptr<LocalWork> work_;
  std::byte* data_;
  std::byte* staging_;
  ElementType type_;
  Bytes capacity_;
  std::int64_t width_;             // bytes of an element
  std::vector<ReducePeer> peers_;  // in member order, without this rank
  ReducePhase phase_ = ReducePhase::idle;
  Transfer::Content content_ = Transfer::Content::whole;  // of what this rank sends
  std::int64_t elements_ = 0;
  program::Piece mine_;
};

DirectAllReduce::DirectAllReduce(const World& world, const ProcessGroup& group, int tag, std::unique_ptr<LocalWork> work, std::byte* data,
                                 ElementType type, Bytes capacity, std::byte* staging)
    : group_{group},
      work_{std::move(work)},
      data_{data},
      staging_{staging},
      type_{type},
      capacity_{capacity},
      width_{element_size(type).count} {
  using enum Transfer::Direction;
  for (int member = 0; member < group.size(); ++member) {
    if (member == group.index()) continue;
    const Rank rank = group.members()[static_cast<std::size_t>(member)];
    const auto transfer = [&](Transfer::Direction direction, int phase) {
      return Transfer{world, world.reduce(), direction, rank, tag + phase};
    };
    peers_.push_back({member, {}, transfer(send, 0), transfer(receive, 0), transfer(send, 1), transfer(receive, 1)});
  }
}

void DirectAllReduce::begin(Bytes size, Transfer::Content content) {
  FLOTILLA_ASSERT(phase_ == ReducePhase::idle, "started twice: ", describe());
  FLOTILLA_ASSERT(size <= capacity_ && size.count % width_ == 0, size.count, " bytes: ", describe());
  elements_ = size.count / width_;
  mine_ = program::piece(elements_, group_.size(), group_.index());
  content_ = content;
  const std::int64_t stride = mine_.count() * width_;  // no larger than the largest piece that the staging is sized for
  std::byte* place = staging_;
  for (ReducePeer& peer : peers_) {
    peer.piece = program::piece(elements_, group_.size(), peer.member);
    peer.waits_for_sum = false;
    peer.piece_in.start_receive(place, stride);
    peer.piece_out.start_send(at(peer.piece.first), peer.piece.count() * width_, content);
    place += stride;
  }
  phase_ = ReducePhase::collecting;
}

bool DirectAllReduce::progress() {
  if (phase_ == ReducePhase::idle) return true;
  const bool sums_here = take_sums();
  if (phase_ == ReducePhase::collecting && collect()) {
    start_sum();
    phase_ = ReducePhase::summing;
  }
  if (phase_ == ReducePhase::summing) {
    if (!work_->progress()) return false;
    return_sums();
    phase_ = ReducePhase::returning;
  }
  if (phase_ != ReducePhase::returning || !sums_here) return false;
  for (ReducePeer& peer : peers_)
    if (!peer.sum_out.done()) return false;
  phase_ = ReducePhase::idle;
  return true;
}

/// True when every other member's copy of my piece is here.
bool DirectAllReduce::collect() {
  bool all = true;
  for (ReducePeer& peer : peers_) all = peer.piece_in.done() && all;
  return all;
}

/// True when every other piece has its sum. A sum is received into the very place that its piece was sent from, thus only after that.
bool DirectAllReduce::take_sums() {
  bool all = true;
  for (ReducePeer& peer : peers_) {
    if (!peer.piece_out.done()) {
      all = false;
      continue;
    }
    if (!peer.waits_for_sum) peer.sum_in.start_receive(at(peer.piece.first), peer.piece.count() * width_);
    peer.waits_for_sum = true;
    all = peer.sum_in.done() && all;
  }
  return all;
}

void DirectAllReduce::start_sum() {
  if (content_ == Transfer::Content::none) return;  // nobody wants such a sum
  work_->start_sum(type_, at(mine_.first), staging_, group_.size(), group_.index(), mine_.count());
}

void DirectAllReduce::return_sums() {
  for (ReducePeer& peer : peers_) peer.sum_out.start_send(at(mine_.first), mine_.count() * width_, content_);
}

std::string DirectAllReduce::describe() const {
  std::string line = text("all-reduce ", Bytes{elements_ * width_}, " over the ", group_.describe());
  for (const ReducePeer& peer : peers_)
    for (const Transfer* transfer : {&peer.piece_in, &peer.piece_out, &peer.sum_in, &peer.sum_out})
      if (transfer->in_flight()) return text(line, ", waiting to ", transfer->describe());
  return line;
}

}  // namespace

std::unique_ptr<PersistentOperation> make_direct_all_reduce(const World& world, const ProcessGroup& group, int tag,
                                                            std::unique_ptr<LocalWork> work, std::byte* data, ElementType type,
                                                            Bytes capacity, std::byte* staging) {
  return std::make_unique<DirectAllReduce>(world, group, tag, std::move(work), data, type, capacity, staging);
}

}  // namespace flotilla::comm
