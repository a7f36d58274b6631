// The first half of the fixed-order sum (all_reduce.cpp): pieces go to their owners, each sums its own in member order.
#include <utility>
#include <vector>

#include "flotilla/base/error.hpp"
#include "mpi_operations.hpp"
#include "transfer.hpp"

namespace flotilla::comm {
namespace {

class DirectReduceScatter final : public PersistentOperation {
 public:
  DirectReduceScatter(const World& world, const ProcessGroup& group, int tag, std::unique_ptr<LocalWork> work, std::byte* data,
                      ElementType type, Bytes unit, Bytes capacity, std::byte* staging);
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
  void start_sum();

  const ProcessGroup& group_;
  const std::unique_ptr<LocalWork> work_;
  std::byte* data_;
  std::byte* staging_;
  ElementType type_;
  Bytes unit_, capacity_, size_;
  bool in_flight_ = false, summing_ = false;
  std::vector<ScatterPeer> peers_;  // in member order, without this rank
  program::Piece mine_;             // of the units
};

DirectReduceScatter::DirectReduceScatter(const World& world, const ProcessGroup& group, int tag, std::unique_ptr<LocalWork> work,
                                         std::byte* data, ElementType type, Bytes unit, Bytes capacity, std::byte* staging)
    : group_{group}, work_{std::move(work)}, data_{data}, staging_{staging}, type_{type}, unit_{unit}, capacity_{capacity} {
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
  summing_ = false;
  const std::int64_t units = size.count / unit_.count;
  mine_ = program::piece(units, group_.size(), group_.index());
  const std::int64_t bytes = mine_.count() * unit_.count;
  std::byte* place = staging_;
  for (ScatterPeer& peer : peers_) {
    const program::Piece theirs = program::piece(units, group_.size(), peer.member);
    peer.in.start_receive(place, bytes);
    peer.out.start_send(data_ + theirs.first * unit_.count, theirs.count() * unit_.count);
    place += bytes;
  }
}

bool DirectReduceScatter::progress() {
  if (!in_flight_) return true;
  if (!summing_ && !exchanged()) return false;
  if (!std::exchange(summing_, true)) start_sum();
  in_flight_ = !work_->progress();
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

void DirectReduceScatter::start_sum() {
  const std::int64_t elements = mine_.count() * unit_.count / element_size(type_).count;
  work_->start_sum(type_, data_ + mine_.first * unit_.count, staging_, group_.size(), group_.index(), elements);
}

std::string DirectReduceScatter::describe() const {
  std::string line = text("reduce-scatter ", size_, " over the ", group_.describe());
  for (const ScatterPeer& peer : peers_)
    for (const Transfer* transfer : {&peer.in, &peer.out})
      if (transfer->in_flight()) return text(line, ", waiting to ", transfer->describe());
  return line;
}

}  // namespace

std::unique_ptr<PersistentOperation> make_direct_reduce_scatter(const World& world, const ProcessGroup& group, int tag,
                                                                std::unique_ptr<LocalWork> work, std::byte* data, ElementType type,
                                                                Bytes unit, Bytes capacity, std::byte* staging) {
  return std::make_unique<DirectReduceScatter>(world, group, tag, std::move(work), data, type, unit, capacity, staging);
}

}  // namespace flotilla::comm
