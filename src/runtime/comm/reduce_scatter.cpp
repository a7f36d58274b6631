// The first half of the fixed-order sum (all_reduce.cpp): pieces go to their owners, each sums its own in member order.
#include <algorithm>
#include <vector>

#include "flotilla/base/error.hpp"
#include "mpi_operations.hpp"
#include "ordered_sum.hpp"
#include "transfer.hpp"

namespace flotilla::comm {
namespace {

class DirectReduceScatter final : public Operation {
 public:
  DirectReduceScatter(const World& world, const Group& group, int tag, std::byte* data, ElementType type, Bytes unit, Bytes capacity,
                      std::byte* staging);
  void start(Bytes size) override;
  bool progress() override;
  std::string describe() const override;

 private:
  /// The traffic with one other member.
  struct ScatterPeer {
    int member;
    Transfer out, in;
  };

  bool exchanged();
  void sum_slice();

  const Group& group_;
  std::byte* data_;
  std::byte* staging_;
  ElementType type_;
  Bytes unit_, capacity_, size_;
  bool in_flight_ = false;
  std::vector<ScatterPeer> peers_;       // in member order, without this rank
  std::vector<const std::byte*> parts_;  // of my piece, by member
  std::byte* sum_ = nullptr;             // where the next slice of it goes
  std::int64_t left_ = 0;                // elements of it
};

DirectReduceScatter::DirectReduceScatter(const World& world, const Group& group, int tag, std::byte* data, ElementType type, Bytes unit,
                                         Bytes capacity, std::byte* staging)
    : group_{group},
      data_{data},
      staging_{staging},
      type_{type},
      unit_{unit},
      capacity_{capacity},
      parts_(static_cast<std::size_t>(group.size())) {
  FLOTILLA_ASSERT(unit.count > 0 && unit.count % element_size(type).count == 0, unit.count, " bytes are no unit of elements");
  for (int member = 0; member < group.size(); ++member) {
    if (member == group.index()) continue;
    const Rank rank = group.members()[static_cast<std::size_t>(member)];
    peers_.push_back({member,
                      {world, world.reduce(), Transfer::Direction::send, rank, tag},
                      {world, world.reduce(), Transfer::Direction::receive, rank, tag}});
  }
}

void DirectReduceScatter::start(Bytes size) {
  FLOTILLA_ASSERT(!in_flight_, "started twice: ", describe());
  FLOTILLA_ASSERT(size <= capacity_ && size.count % unit_.count == 0, size.count, " bytes: ", describe());
  size_ = size;
  in_flight_ = true;
  const std::int64_t units = size.count / unit_.count;
  const program::Piece mine = program::piece(units, group_.size(), group_.index());
  const std::int64_t bytes = mine.count() * unit_.count;
  sum_ = data_ + mine.first * unit_.count;
  left_ = bytes / element_size(type_).count;
  std::byte* place = staging_;
  parts_[static_cast<std::size_t>(group_.index())] = sum_;
  for (ScatterPeer& peer : peers_) {
    const program::Piece theirs = program::piece(units, group_.size(), peer.member);
    parts_[static_cast<std::size_t>(peer.member)] = place;
    peer.in.start_receive(place, bytes);
    peer.out.start_send(data_ + theirs.first * unit_.count, theirs.count() * unit_.count);
    place += bytes;
  }
}

bool DirectReduceScatter::progress() {
  if (!in_flight_) return true;
  if (!exchanged()) return false;
  if (left_ > 0) sum_slice();
  in_flight_ = left_ > 0;
  return !in_flight_;
}

bool DirectReduceScatter::exchanged() {
  bool all = true;
  for (ScatterPeer& peer : peers_) {
    all = peer.in.done() && all;
    all = peer.out.done() && all;
  }
  return all;
}

void DirectReduceScatter::sum_slice() {
  const std::int64_t width = element_size(type_).count, count = std::min(slice.count / width, left_);
  ordered_sum(type_, parts_, sum_, count);
  for (const std::byte*& part : parts_) part += count * width;
  sum_ += count * width;
  left_ -= count;
}

std::string DirectReduceScatter::describe() const {
  std::string line = text("reduce-scatter ", size_, " over the ", group_.describe());
  for (const ScatterPeer& peer : peers_)
    for (const Transfer* transfer : {&peer.in, &peer.out})
      if (transfer->in_flight()) return text(line, ", waiting to ", transfer->describe());
  return line;
}

}  // namespace

std::unique_ptr<Operation> make_direct_reduce_scatter(const World& world, const Group& group, int tag, std::byte* data, ElementType type,
                                                      Bytes unit, Bytes capacity, std::byte* staging) {
  return std::make_unique<DirectReduceScatter>(world, group, tag, data, type, unit, capacity, staging);
}

}  // namespace flotilla::comm
