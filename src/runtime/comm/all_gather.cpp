#include <algorithm>
#include <vector>

#include "flotilla/base/error.hpp"
#include "mpi_operations.hpp"
#include "transfer.hpp"

namespace flotilla::comm {
namespace {

class DirectAllGather final : public Operation {
 public:
  DirectAllGather(const World& world, const Group& group, int tag, const std::byte* mine, std::byte* all, Bytes capacity)
      : group_{group}, mine_{mine}, all_{all}, capacity_{capacity} {
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
    FLOTILLA_ASSERT(size >= Bytes{0} && size <= capacity_, size.count, " bytes: ", describe());
    size_ = size;
    in_flight_ = true;
    for (Peer& peer : peers_) {
      peer.in.start_receive(all_ + peer.member * size.count, size.count);
      peer.out.start_send(mine_, size.count);
    }
    std::byte* place = all_ + group_.index() * size.count;
    if (place != mine_) std::copy_n(mine_, size.count, place);
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
    std::string line = text("all-gather ", size_, " each over the ", group_.describe());
    for (const Peer& peer : peers_)
      for (const Transfer* transfer : {&peer.in, &peer.out})
        if (transfer->in_flight()) return text(line, ", waiting to ", transfer->describe());
    return line;
  }

 private:
  struct Peer {
    int member;
    Transfer out, in;
  };
  const Group& group_;
  const std::byte* mine_;
  std::byte* all_;
  Bytes capacity_;
  Bytes size_;
  bool in_flight_ = false;
  std::vector<Peer> peers_;  // in member order, without this rank
};

}  // namespace

std::unique_ptr<Operation> make_direct_all_gather(const World& world, const Group& group, int tag, const std::byte* mine, std::byte* all,
                                                  Bytes capacity) {
  return std::make_unique<DirectAllGather>(world, group, tag, mine, all, capacity);
}

}  // namespace flotilla::comm
