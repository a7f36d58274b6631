#include <utility>
#include <vector>

#include "flotilla/base/error.hpp"
#include "mpi_operations.hpp"
#include "transfer.hpp"

namespace flotilla::comm {
namespace {

/// Everybody sends its piece to everybody else.
class DirectGather : public PersistentOperation {
 public:
  DirectGather(const World& world, const ProcessGroup& group, int tag, std::byte* data, Bytes unit, Bytes capacity)
      : group_{group}, data_{data}, unit_{unit}, capacity_{capacity} {
    for (int member = 0; member < group.size(); ++member) {
      if (member == group.index()) continue;
      const Rank rank = group.members()[static_cast<std::size_t>(member)];
      peers_.push_back({member,
                        {world, world.reduce(), Transfer::Direction::send, rank, tag},
                        {world, world.reduce(), Transfer::Direction::receive, rank, tag}});
    }
  }

  void start(Bytes size) override { start(size, unit_, part(group_.index(), size, unit_).data); }

  bool progress() override {
    bool all = true;
    for (GatherPeer& peer : peers_) {
      all = peer.in.done() && all;
      all = peer.out.done() && all;
    }
    in_flight_ = !all;
    return all;
  }

  std::string describe() const final {
    std::string line = text("gather ", size_, " over the ", group_.describe());
    for (const GatherPeer& peer : peers_)
      for (const Transfer* transfer : {&peer.in, &peer.out})
        if (transfer->in_flight()) return text(line, ", waiting to ", transfer->describe());
    return line;
  }

 protected:
  /// `mine`: this rank's piece, wherever it is.
  void start(Bytes size, Bytes unit, const std::byte* mine) {
    FLOTILLA_ASSERT(!in_flight_, "started twice: ", describe());
    FLOTILLA_ASSERT(size >= Bytes{0} && size <= capacity_ && (size.count == 0 || size.count % unit.count == 0), size.count,
                    " bytes: ", describe());
    size_ = size;
    in_flight_ = true;
    const std::int64_t bytes = part(group_.index(), size, unit).bytes;
    for (GatherPeer& peer : peers_) {
      const GatherPart theirs = part(peer.member, size, unit);
      peer.in.start_receive(theirs.data, theirs.bytes);
      peer.out.start_send(mine, bytes);
    }
  }

 private:
  struct GatherPart {
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
  };
  struct GatherPeer {
    int member;
    Transfer out, in;
  };

  GatherPart part(int member, Bytes size, Bytes unit) const {
    const auto piece = program::piece(size.count == 0 ? 0 : size.count / unit.count, group_.size(), member);
    return {data_ + piece.first * unit.count, piece.count() * unit.count};
  }

  const ProcessGroup& group_;
  std::byte* data_;
  Bytes unit_, capacity_, size_;
  bool in_flight_ = false;
  std::vector<GatherPeer> peers_;  // in member order, without this rank
};

/// Pieces of one size, which is only known at the start; mine may come from elsewhere.
class DirectAllGather final : public DirectGather {
 public:
  DirectAllGather(const World& world, const ProcessGroup& group, int tag, std::unique_ptr<LocalWork> work, const std::byte* mine,
                  std::byte* all, Bytes capacity)
      : DirectGather{world, group, tag, all, {1}, group.size() * capacity}, work_{std::move(work)}, mine_{mine}, all_{all}, group_{group} {}

  void start(Bytes size) override {
    std::byte* place = all_ + group_.index() * size.count;
    if (place != mine_) work_->start_copy(place, mine_, size);
    DirectGather::start(group_.size() * size, size, mine_);
  }
  bool progress() override {
    const bool gathered = DirectGather::progress();
    return work_->progress() && gathered;
  }

 private:
  const std::unique_ptr<LocalWork> work_;
  const std::byte* mine_;
  std::byte* all_;
  const ProcessGroup& group_;
};

}  // namespace

std::unique_ptr<PersistentOperation> make_direct_all_gather(const World& world, const ProcessGroup& group, int tag,
                                                            std::unique_ptr<LocalWork> work, const std::byte* mine, std::byte* all,
                                                            Bytes capacity) {
  return std::make_unique<DirectAllGather>(world, group, tag, std::move(work), mine, all, capacity);
}

std::unique_ptr<PersistentOperation> make_direct_gather_pieces(const World& world, const ProcessGroup& group, int tag, std::byte* data,
                                                               Bytes unit, Bytes capacity) {
  return std::make_unique<DirectGather>(world, group, tag, data, unit, capacity);
}

}  // namespace flotilla::comm
