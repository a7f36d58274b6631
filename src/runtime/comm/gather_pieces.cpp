#include <vector>

#include "flotilla/base/error.hpp"
#include "mpi_operations.hpp"
#include "transfer.hpp"

namespace flotilla::comm {
namespace {

/// Everybody sends its piece to everybody else.
class DirectGatherPieces final : public Operation {
 public:
  DirectGatherPieces(const World& world, const Group& group, int tag, std::byte* data, Bytes unit, Bytes capacity)
      : group_{group}, data_{data}, unit_{unit}, capacity_{capacity} {
    for (int member = 0; member < group.size(); ++member) {
      if (member == group.index()) continue;
      const Rank rank = group.members()[static_cast<std::size_t>(member)];
      peers_.push_back({member,
                        {world, world.reduce(), Transfer::Direction::send, rank, tag},
                        {world, world.reduce(), Transfer::Direction::receive, rank, tag}});
    }
  }

  void start(Bytes size) override {
    FLOTILLA_ASSERT(!in_flight_, "started twice: ", describe());
    FLOTILLA_ASSERT(size >= Bytes{0} && size <= capacity_ && size.count % unit_.count == 0, size.count, " bytes: ", describe());
    size_ = size;
    in_flight_ = true;
    const Part mine = part(group_.index());
    for (Peer& peer : peers_) {
      const Part theirs = part(peer.member);
      peer.in.start_receive(theirs.data, theirs.bytes);
      peer.out.start_send(mine.data, mine.bytes);
    }
  }

  bool progress() override {
    bool all = true;
    for (Peer& peer : peers_) {
      all = peer.in.done() && all;
      all = peer.out.done() && all;
    }
    in_flight_ = !all;
    return all;
  }

  std::string describe() const override {
    std::string line = text("gather ", size_, " over the ", group_.describe());
    for (const Peer& peer : peers_)
      for (const Transfer* transfer : {&peer.in, &peer.out})
        if (transfer->in_flight()) return text(line, ", waiting to ", transfer->describe());
    return line;
  }

 private:
  struct Part {
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
  };
  struct Peer {
    int member;
    Transfer out, in;
  };

  Part part(int member) const {
    const auto piece = program::piece(size_.count / unit_.count, group_.size(), member);
    return {data_ + piece.first * unit_.count, piece.count() * unit_.count};
  }

  const Group& group_;
  std::byte* data_;
  Bytes unit_, capacity_, size_;
  bool in_flight_ = false;
  std::vector<Peer> peers_;  // in member order, without this rank
};

}  // namespace

std::unique_ptr<Operation> make_direct_gather_pieces(const World& world, const Group& group, int tag, std::byte* data, Bytes unit,
                                                     Bytes capacity) {
  return std::make_unique<DirectGatherPieces>(world, group, tag, data, unit, capacity);
}

}  // namespace flotilla::comm
