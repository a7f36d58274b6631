#include "machine.hpp"

#include <algorithm>
#include <string_view>

#include "flotilla/base/error.hpp"

namespace flotilla::simulate {
namespace {

using program::Op;
using program::Program;
using program::Queue;
using program::Site;

constexpr int nobody = -1;

/// Runs one instruction to its end before the next; on a send or receive queue that is up to the messages.
bool is_serial(Queue queue) { return queue != Queue::send && queue != Queue::receive; }

/// Messages of one ordered pair of ranks, in the order in which both ends list them. They share the path, so each moves after the one
/// before.
struct Stream {
  struct End {
    int rank = nobody, item = nobody;
    double ready = -1;
  };
  struct Message {
    End sender, receiver;
  };
  std::vector<Message> messages;
  std::size_t moved = 0;
  double free = 0;
};

/// The n-th collectives of a kind of group.
struct Meeting {
  std::vector<Stream::End> joined;
  double start = 0;
};

struct QueueState {
  std::size_t head = 0;
  double available = 0;  // serial queues: the end of the instruction before; posting queues: its start
  bool joined = false;   // the head, a collective or a message on a serial queue, waits for its partners
  bool waiting = false;  // it stands in the list of an event's waiters
  int next_waiter = nobody;
};

class Machine {
 public:
  Machine(const Program& program, const Kinds& kinds, const InstructionCost& cost) : program_{program}, kinds_{kinds} {
    for (const Kind& kind : kinds.kinds) add_rank(kind, cost);
    queues_.resize(ranks_.size() * program::queue_count);
    waiters_.resize(ranks_.size());
    for (std::size_t r = 0; r < ranks_.size(); ++r) waiters_[r].assign(ranks_[r].listing.items.size(), nobody);
    meetings_.resize(kinds.groups.size());
  }

  std::vector<SimulatedRank> run() {
    for (std::size_t q = queues_.size(); q-- > 0;) work_.push_back(static_cast<int>(q));
    while (!work_.empty()) {
      const int queue = work_.back();
      work_.pop_back();
      advance(queue);
    }
    require_ended();
    return std::move(ranks_);
  }

 private:
  void add_rank(const Kind& kind, const InstructionCost& cost) {
    SimulatedRank rank;
    rank.kind = &kind;
    rank.rank_class = &program_.classes[static_cast<std::size_t>(kind.rank_class)];
    rank.listing = list_instructions(*rank.rank_class, kind.slots);
    rank.moments.resize(rank.listing.items.size());
    for (const Site& site : rank.rank_class->sites) rank.costs.push_back(costs_of(kind, *rank.rank_class, site, cost));
    first_stream_.push_back(static_cast<int>(streams_.size()));
    streams_.resize(streams_.size() + kind.slots.size());
    ranks_.push_back(std::move(rank));
  }

  std::array<Cost, 2> costs_of(const Kind& kind, const program::RankClass& c, const Site& site, const InstructionCost& cost) const {
    const Cost full = cost_of(kind, c, site, c.shape.sequences, cost);
    const bool short_last = site.per_microbatch && c.microbatches > 0 && c.last_sequences != c.shape.sequences;
    return {full, short_last ? cost_of(kind, c, site, c.last_sequences, cost) : full};
  }

  Cost cost_of(const Kind& kind, const program::RankClass& c, const Site& site, int sequences, const InstructionCost& cost) const {
    const Rank self = kind.ranks.front();
    const Bytes bytes = site.per_microbatch ? site.bytes_per_sequence * sequences : site.bytes;
    switch (site.op) {
      case Op::send: return cost.message(self, peer_of(self, site), bytes);
      case Op::receive: return {};  // its sender's side is what it takes
      case Op::all_reduce:
      case Op::all_gather:
      case Op::reduce_scalars: return cost.collective(site.op, group_of(self, site), bytes, element_of(site));
      default: return cost.compute(program_, c, site, sequences);
    }
  }

  /// Activations travel in the plan's precision, gradients in fp32, scalars in fp64 (program.hpp).
  Bytes element_of(const Site& site) const {
    if (site.op == Op::reduce_scalars) return {8};
    return site.op == Op::all_reduce && site.per_microbatch ? element_size(program_.plan.precision) : Bytes{4};
  }

  Rank peer_of(Rank self, const Site& site) const {
    const auto& peers = program_.ranks[self.index()].peers;
    FLOTILLA_REQUIRE(site.peer >= 0 && static_cast<std::size_t>(site.peer) < peers.size(), ErrorKind::internal, "\"", site.name,
                     "\" of the program names peer slot ", site.peer, "; rank ", self, " has ", peers.size());
    return peers[static_cast<std::size_t>(site.peer)];
  }
  const program::Group& group_of(Rank self, const Site& site) const {
    const auto& groups = program_.ranks[self.index()].groups;
    FLOTILLA_REQUIRE(site.group >= 0 && static_cast<std::size_t>(site.group) < groups.size(), ErrorKind::internal, "\"", site.name,
                     "\" of the program names group slot ", site.group, "; rank ", self, " has ", groups.size());
    return program_.groups[static_cast<std::size_t>(groups[static_cast<std::size_t>(site.group)])];
  }

  SimulatedRank& rank_of(int queue) { return ranks_[static_cast<std::size_t>(queue / program::queue_count)]; }
  static Queue queue_of(int queue) { return static_cast<Queue>(queue % program::queue_count); }
  static int index_of(int rank, Queue queue) { return rank * program::queue_count + static_cast<int>(queue); }
  const std::vector<int>& order_of(int queue) {
    return rank_of(queue).listing.queues[static_cast<std::size_t>(queue % program::queue_count)];
  }

  void advance(int queue) {
    QueueState& state = queues_[static_cast<std::size_t>(queue)];
    const auto& order = order_of(queue);
    while (state.head < order.size() && !state.joined && !state.waiting) {
      const int item = order[state.head];
      double ready = state.available;
      if (!waits_met(queue, item, ready)) return;
      start(queue, item, ready);
    }
  }

  /// Raises `ready` to the last of the item's waits; where one has not happened, leaves the queue with it and says no.
  bool waits_met(int queue, int item, double& ready) {
    const SimulatedRank& rank = rank_of(queue);
    for (int wait : rank.listing.waits_of(item)) {
      const Moment& moment = rank.moments[static_cast<std::size_t>(wait)];
      if (!moment.done()) {
        int& first = waiters_[static_cast<std::size_t>(queue / program::queue_count)][static_cast<std::size_t>(wait)];
        QueueState& state = queues_[static_cast<std::size_t>(queue)];
        state.next_waiter = first;
        state.waiting = true;
        first = queue;
        return false;
      }
      ready = std::max(ready, moment.finish);
    }
    return true;
  }

  void start(int queue, int item, double ready) {
    const int rank = queue / program::queue_count;
    QueueState& state = queues_[static_cast<std::size_t>(queue)];
    switch (site_of(rank, item).op) {
      case Op::send:
      case Op::receive:
        if (is_serial(queue_of(queue))) {
          state.joined = true;
        } else {
          ++state.head;
          state.available = ready;
        }
        post(rank, item, ready);
        return;
      case Op::all_reduce:
      case Op::all_gather:
      case Op::reduce_scalars:
        state.joined = true;
        join(rank, item, ready);
        return;
      default:
        ++state.head;
        state.available = ready + ranks_[static_cast<std::size_t>(rank)].cost(item).time.value;
        finish(rank, item, ready, state.available);
    }
  }

  const Site& site_of(int rank, int item) const {
    const auto& r = ranks_[static_cast<std::size_t>(rank)];
    return r.rank_class->sites[static_cast<std::size_t>(r.listing.items[static_cast<std::size_t>(item)].site)];
  }
  int sequence_of(int rank, int item) const {
    return ranks_[static_cast<std::size_t>(rank)].listing.items[static_cast<std::size_t>(item)].sequence;
  }

  /// The stream is the sender's, by its folded slot.
  void post(int rank, int item, double ready) {
    const Site& site = site_of(rank, item);
    const Kind& kind = *ranks_[static_cast<std::size_t>(rank)].kind;
    const int slot = kind.slots[static_cast<std::size_t>(site.peer)];
    const PeerKind peer = kind.peers[static_cast<std::size_t>(slot)];
    FLOTILLA_REQUIRE(peer.kind >= 0 && peer.slot >= 0, ErrorKind::internal, "\"", site.name, "\" of the program goes to rank ",
                     peer_of(kind.ranks.front(), site), ", which does not know rank ", kind.ranks.front());
    const bool sends = site.op == Op::send;
    const int at =
        sends ? first_stream_[static_cast<std::size_t>(rank)] + slot : first_stream_[static_cast<std::size_t>(peer.kind)] + peer.slot;
    Stream& stream = streams_[static_cast<std::size_t>(at)];
    const auto sequence = static_cast<std::size_t>(sequence_of(rank, item));
    if (stream.messages.size() <= sequence) stream.messages.resize(sequence + 1);
    (sends ? stream.messages[sequence].sender : stream.messages[sequence].receiver) = {rank, item, ready};
    move_messages(stream);
  }

  void move_messages(Stream& stream) {
    for (; stream.moved < stream.messages.size(); ++stream.moved) {
      const auto [sender, receiver] = stream.messages[stream.moved];
      if (sender.rank == nobody || receiver.rank == nobody) return;
      const Site &sent = site_of(sender.rank, sender.item), &received = site_of(receiver.rank, receiver.item);
      FLOTILLA_REQUIRE(sent.channel == received.channel, ErrorKind::internal, "\"", sent.name, "\" of the program meets \"", received.name,
                       "\" on another channel: ", sent.channel, " and ", received.channel);
      const double start = std::max({sender.ready, receiver.ready, stream.free});
      stream.free = start + ranks_[static_cast<std::size_t>(sender.rank)].cost(sender.item).time.value;
      for (const Stream::End& end : {sender, receiver}) {
        finish(end.rank, end.item, start, stream.free);
        const Queue queue = site_of(end.rank, end.item).queue;
        if (is_serial(queue)) release(index_of(end.rank, queue), stream.free);
      }
    }
  }

  /// The head of a serial queue has met its partners and ends.
  void release(int queue, double end) {
    QueueState& state = queues_[static_cast<std::size_t>(queue)];
    state.joined = false;
    state.available = end;
    ++state.head;
    work_.push_back(queue);
  }

  void join(int rank, int item, double ready) {
    const Site& site = site_of(rank, item);
    const auto group = static_cast<std::size_t>(ranks_[static_cast<std::size_t>(rank)].kind->groups[static_cast<std::size_t>(site.group)]);
    auto& meetings = meetings_[group];
    const auto sequence = static_cast<std::size_t>(sequence_of(rank, item));
    if (meetings.size() <= sequence) meetings.resize(sequence + 1);
    Meeting& meeting = meetings[sequence];
    meeting.joined.push_back({rank, item, ready});
    meeting.start = std::max(meeting.start, ready);
    if (meeting.joined.size() == kinds_.groups[group].members.size()) hold(meeting);
  }

  void hold(Meeting& meeting) {
    double end = meeting.start;
    for (const auto& [rank, item, ready] : meeting.joined)
      end = std::max(end, meeting.start + ranks_[static_cast<std::size_t>(rank)].cost(item).time.value);
    for (const auto& [rank, item, ready] : meeting.joined) {
      finish(rank, item, meeting.start, end);
      release(index_of(rank, site_of(rank, item).queue), end);
    }
    meeting.joined.clear();
    meeting.joined.shrink_to_fit();
  }

  void finish(int rank, int item, double start, double end) {
    auto& moment = ranks_[static_cast<std::size_t>(rank)].moments[static_cast<std::size_t>(item)];
    moment = {start, end};
    int& first = waiters_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(item)];
    for (int queue = first; queue != nobody; queue = queues_[static_cast<std::size_t>(queue)].next_waiter) {
      queues_[static_cast<std::size_t>(queue)].waiting = false;
      work_.push_back(queue);
    }
    first = nobody;
  }

  void require_ended() {
    for (std::size_t q = 0; q < queues_.size(); ++q)
      if (queues_[q].head < order_of(static_cast<int>(q)).size()) throw_stuck(static_cast<int>(q));
    for (const auto& rank : ranks_)
      for (std::size_t i = 0; i < rank.moments.size(); ++i)
        if (!rank.moments[i].done()) throw_unmet(rank, static_cast<int>(i));
  }

  std::string name_of(const SimulatedRank& rank, int item) const {
    const Item& it = rank.listing.items[static_cast<std::size_t>(item)];
    const Site& site = rank.rank_class->sites[static_cast<std::size_t>(it.site)];
    return site.per_microbatch ? text("\"", site.name, "\" of microbatch ", it.microbatch) : text("\"", site.name, "\"");
  }

  [[noreturn]] void throw_stuck(int queue) {
    const SimulatedRank& rank = rank_of(queue);
    const int item = order_of(queue)[queues_[static_cast<std::size_t>(queue)].head];
    const bool message = site_of(queue / program::queue_count, item).peer >= 0;
    std::string what = message ? "its other end" : "the other members of its group";
    for (int wait : rank.listing.waits_of(item))
      if (!rank.moments[static_cast<std::size_t>(wait)].done()) what = name_of(rank, wait);
    throw Error{ErrorKind::internal, text("the program never ends: rank ", rank.kind->ranks.front(), " cannot finish ", name_of(rank, item),
                                          ", which waits for ", what)};
  }
  [[noreturn]] void throw_unmet(const SimulatedRank& rank, int item) const {
    throw Error{ErrorKind::internal,
                text("the program never ends: ", name_of(rank, item), " of rank ", rank.kind->ranks.front(), " never meets its other end")};
  }

  const Program& program_;
  const Kinds& kinds_;
  std::vector<SimulatedRank> ranks_;
  std::vector<QueueState> queues_;
  std::vector<std::vector<int>> waiters_;  // by rank and item: the first queue that waits for it
  std::vector<int> first_stream_;          // by rank
  std::vector<Stream> streams_;
  std::vector<std::vector<Meeting>> meetings_;  // by kind of group and number
  std::vector<int> work_;
};

}  // namespace

std::vector<SimulatedRank> run_machine(const Program& program, const Kinds& kinds, const InstructionCost& cost) {
  return Machine{program, kinds, cost}.run();
}

}  // namespace flotilla::simulate
