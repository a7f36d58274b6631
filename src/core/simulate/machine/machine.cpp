#include "machine.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

#include "flotilla/base/error.hpp"
#include "interference.hpp"
#include "rank_costs.hpp"
#include "traffic.hpp"
#include "wires.hpp"

namespace flotilla::simulate {
namespace {

using program::Instruction;
using program::Program;
using program::Queue;

constexpr int nobody = -1;

/// Messages of one ordered pair of ranks, in the order in which both ends list them. They share the path, so each moves after the one
/// before.
struct Stream {
  struct QueueEnd {
    int rank = nobody, item = nobody;
    double ready = -1;
  };
  struct MessageInFlight {
    QueueEnd sender, receiver;
  };
  std::vector<MessageInFlight> messages;
  std::size_t moved = 0;
  double free = 0;
  bool served = false;  ///< its next message shares wires, or is about to
};

/// The n-th collectives of a kind of group.
struct Meeting {
  std::vector<Stream::QueueEnd> joined;
  double start = 0;
};

struct QueueState {
  std::size_t head = 0;
  double available = 0;  // serial queues: the end of the instruction before; posting queues: its start
  bool joined = false;   // the head, a collective or a message on a serial queue, waits for its partners
  bool waiting = false;  // it stands in the list of an event's waiters
  int next_waiter = nobody;
};

/// What has everything but a share of the wires.
struct StartRequest {
  double ready = 0;
  int user = 0;      // Wires
  int sequence = 0;  // of a collective
  bool operator>(const StartRequest& o) const { return std::tie(ready, user, sequence) > std::tie(o.ready, o.user, o.sequence); }
};

enum class Course : std::uint8_t { alone, message, meeting };

class Machine {
 public:
  /// `added`: empty, or of every kind.
  Machine(const Program& program, const RankPartition& kinds, const InstructionCost& cost, const AddedSeconds& added = {})
      : program_{program},
        kinds_{kinds},
        wires_{program, kinds, cost},
        traffic_{wires_},
        moving_(wires_.users()),
        streams_(wires_.streams()) {
    ranks_.reserve(kinds.kinds.size());
    for (std::size_t k = 0; k < kinds.kinds.size(); ++k) add_rank(k, cost);
    for (std::size_t k = 0; k < added.size(); ++k)
      for (std::size_t variant : {0u, 1u})
        std::ranges::transform(ranks_[k].durations[variant], added[k][variant], ranks_[k].durations[variant].begin(), std::plus<>{});
    queues_.resize(ranks_.size() * program::queue_count);
    meetings_.resize(kinds.groups.size());
  }

  std::vector<SimulatedRank> run() {
    for (std::size_t q = queues_.size(); q-- > 0;) work_.push_back(static_cast<int>(q));
    for (;;) {
      while (!work_.empty()) {
        const int queue = work_.back();
        work_.pop_back();
        advance(queue);
      }
      if (!pass_time()) break;
    }
    require_ended();
    return std::move(ranks_);
  }

 private:
  void add_rank(std::size_t k, const InstructionCost& cost) {
    SimulatedRank& rank = ranks_.emplace_back();
    rank.kind = &kinds_.kinds[k];
    rank.rank_class = &program_.classes[static_cast<std::size_t>(rank.kind->rank_class)];
    auto [costs, wire_seconds] = costs_of_rank_kind(program_, kinds_, k, wires_, cost, collectives_);
    rank.costs = std::move(costs);
    wire_seconds_.push_back(std::move(wire_seconds));
    const auto& courses = courses_.emplace_back(courses_of(rank));
    rank.listing = listing_of(k, courses);
    for (std::size_t variant : {0u, 1u})
      for (int instruction : rank.listing.instructions)
        rank.durations[variant].push_back(rank.costs[static_cast<std::size_t>(instruction)][variant].time.value);
    rank.moments.resize(rank.listing.items.size());
    rank.marked.resize(static_cast<std::size_t>(rank.listing.marked_runs));
    waiters_.emplace_back(rank.listing.items.size(), nobody);
  }

  /// Kinds of ranks of one class list alike where they fold their peers alike.
  Listing listing_of(std::size_t k, const std::vector<Course>& courses) const {
    const SimulatedRank& rank = ranks_[k];
    for (std::size_t other = 0; other < k; ++other)
      if (ranks_[other].rank_class == rank.rank_class && ranks_[other].kind->slots == rank.kind->slots && courses_[other] == courses)
        return ranks_[other].listing;
    std::vector<char> local(courses.size());
    std::ranges::transform(courses, local.begin(), [](Course course) { return course == Course::alone ? 1 : 0; });
    return list_instructions(*rank.rank_class, rank.kind->slots, local);
  }

  /// A collective among ranks of one kind starts for all of them at once: it needs nobody else, unless for a wire.
  std::vector<Course> courses_of(const SimulatedRank& rank) const {
    std::vector<Course> courses;
    for (const Instruction& instruction : rank.rank_class->instructions) {
      Course course = instruction.as<program::MessageEnd>() != nullptr ? Course::message : Course::alone;
      if (const auto* collective = instruction.as<program::Collective>()) {
        const auto group = static_cast<std::size_t>(rank.kind->groups[static_cast<std::size_t>(collective->group)]);
        const bool alike = kinds_.groups[group].members.size() == 1 && !wires_.contended(wires_.user_of_group(static_cast<int>(group)));
        course = alike ? Course::alone : Course::meeting;
      }
      courses.push_back(course);
    }
    return courses;
  }

  SimulatedRank& rank_at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  const SimulatedRank& rank_at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  QueueState& state_of(int queue) { return queues_[static_cast<std::size_t>(queue)]; }
  static int rank_of(int queue) { return queue / program::queue_count; }
  static Queue queue_of(int queue) { return static_cast<Queue>(queue % program::queue_count); }
  static int index_of(int rank, Queue queue) { return rank * program::queue_count + static_cast<int>(queue); }
  const std::vector<int>& order_of(int queue) const {
    return rank_at(rank_of(queue)).listing.queues[static_cast<std::size_t>(queue_of(queue))];
  }
  const Instruction& instruction_of(int rank, int item) const {
    return rank_at(rank).instruction(rank_at(rank).listing.first_instruction(item));
  }

  void advance(int queue) {
    QueueState& state = state_of(queue);
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
    const SimulatedRank& rank = rank_at(rank_of(queue));
    for (const Awaited& wait : rank.listing.waits_of(item)) {
      if (!rank.moments[static_cast<std::size_t>(wait.item)].done()) {
        int& first = waiters_[static_cast<std::size_t>(rank_of(queue))][static_cast<std::size_t>(wait.item)];
        QueueState& state = state_of(queue);
        state.next_waiter = first;
        state.waiting = true;
        first = queue;
        return false;
      }
      ready = std::max(ready, rank.end_of(wait));
    }
    return true;
  }

  void start(int queue, int item, double ready) {
    const int rank = rank_of(queue);
    const auto instruction = static_cast<std::size_t>(rank_at(rank).listing.first_instruction(item));
    const Course course = courses_[static_cast<std::size_t>(rank)][instruction];
    if (course == Course::alone) return run_chain(queue, item, ready);
    QueueState& state = state_of(queue);
    if (program::runs_one_at_a_time(queue_of(queue))) {
      state.joined = true;
    } else {
      ++state.head;
      state.available = ready;
    }
    if (course == Course::message)
      post(rank, item, ready);
    else
      join(rank, item, ready);
  }

  void run_chain(int queue, int item, double ready) {
    SimulatedRank& rank = rank_at(rank_of(queue));
    const Item& it = rank.listing.items[static_cast<std::size_t>(item)];
    const Chain& chain = rank.listing.chain_of(item);
    const double* durations = rank.durations[rank.variant_of(it)].data() + chain.first;
    const int* marks = rank.listing.marks.data() + chain.marks;
    double* marked = rank.marked.data() + it.marks;
    double end = ready;
    int mark = 0;
    for (int member = 0; member < chain.size; ++member) {
      end += durations[member];
      if (mark < chain.mark_count && marks[mark] == member) marked[mark++] = end;
    }
    QueueState& state = state_of(queue);
    ++state.head;
    state.available = chain.home_mark < 0 ? end : marked[chain.home_mark];
    finish(rank_of(queue), item, ready, end);
  }

  double duration(int rank, int item) const {
    const SimulatedRank& r = rank_at(rank);
    const Item& it = r.listing.items[static_cast<std::size_t>(item)];
    return r.durations[r.variant_of(it)][static_cast<std::size_t>(r.listing.chain_of(item).first)];
  }
  double wire_seconds(int rank, int item) const {
    const SimulatedRank& r = rank_at(rank);
    const auto instruction = static_cast<std::size_t>(r.listing.first_instruction(item));
    return wire_seconds_[static_cast<std::size_t>(rank)][instruction][r.variant_of(r.listing.items[static_cast<std::size_t>(item)])];
  }

  /// The stream is the sender's, by its folded slot.
  void post(int rank, int item, double ready) {
    const Instruction& instruction = instruction_of(rank, item);
    const auto& message = *instruction.as<program::MessageEnd>();
    const EquivalentRanks& kind = *rank_at(rank).kind;
    const int slot = kind.slots[static_cast<std::size_t>(message.peer)];
    const PeerKind peer = kind.peers[static_cast<std::size_t>(slot)];
    FLOTILLA_REQUIRE(peer.kind >= 0 && peer.slot >= 0, ErrorKind::internal, "\"", instruction.name, "\" of the program goes to rank ",
                     program_.ranks[kind.ranks.front().index()].peers[static_cast<std::size_t>(slot)], ", which does not know rank ",
                     kind.ranks.front());
    const bool sends = message.sends();
    const int at = sends ? wires_.stream(rank, slot) : wires_.stream(peer.kind, peer.slot);
    Stream& stream = streams_[static_cast<std::size_t>(at)];
    const auto sequence = static_cast<std::size_t>(rank_at(rank).listing.items[static_cast<std::size_t>(item)].sequence);
    if (stream.messages.size() <= sequence) stream.messages.resize(sequence + 1);
    (sends ? stream.messages[sequence].sender : stream.messages[sequence].receiver) = {rank, item, ready};
    move_messages(at);
  }

  void move_messages(int at) {
    Stream& stream = streams_[static_cast<std::size_t>(at)];
    while (!stream.served && stream.moved < stream.messages.size()) {
      const auto [sender, receiver] = stream.messages[stream.moved];
      if (sender.rank == nobody || receiver.rank == nobody) return;
      const Instruction &sent = instruction_of(sender.rank, sender.item), &received = instruction_of(receiver.rank, receiver.item);
      const int channel = sent.as<program::MessageEnd>()->channel, other = received.as<program::MessageEnd>()->channel;
      FLOTILLA_REQUIRE(channel == other, ErrorKind::internal, "\"", sent.name, "\" of the program meets \"", received.name,
                       "\" on another channel: ", channel, " and ", other);
      const double ready = std::max({sender.ready, receiver.ready, stream.free});
      if (wires_.contended(at)) {
        stream.served = true;
        return ask({ready, at, 0});
      }
      move(stream, ready, ready + message_seconds(sender, receiver));
    }
  }

  /// A receive takes what its own rank delays it.
  double message_seconds(const Stream::QueueEnd& sender, const Stream::QueueEnd& receiver) const {
    return duration(sender.rank, sender.item) + duration(receiver.rank, receiver.item);
  }

  void move(Stream& stream, double start, double end) {
    const auto [sender, receiver] = stream.messages[stream.moved++];
    stream.free = end;
    for (const Stream::QueueEnd& side : {sender, receiver}) {
      finish(side.rank, side.item, start, stream.free);
      const Queue queue = instruction_of(side.rank, side.item).queue;
      release(index_of(side.rank, queue), stream.free);
    }
  }

  void join(int rank, int item, double ready) {
    const auto& collective = *instruction_of(rank, item).as<program::Collective>();
    const int group = rank_at(rank).kind->groups[static_cast<std::size_t>(collective.group)];
    auto& meetings = meetings_[static_cast<std::size_t>(group)];
    const int sequence = rank_at(rank).listing.items[static_cast<std::size_t>(item)].sequence;
    if (meetings.size() <= static_cast<std::size_t>(sequence)) meetings.resize(static_cast<std::size_t>(sequence) + 1);
    Meeting& meeting = meetings[static_cast<std::size_t>(sequence)];
    meeting.joined.push_back({rank, item, ready});
    meeting.start = std::max(meeting.start, ready);
    if (meeting.joined.size() < kinds_.groups[static_cast<std::size_t>(group)].members.size()) return;
    if (wires_.contended(wires_.user_of_group(group)))
      ask({meeting.start, wires_.user_of_group(group), sequence});
    else
      hold(meeting, meeting.start + longest(meeting).all);
  }

  struct InstructionTimes {
    double all = 0, wire = 0;
  };
  InstructionTimes longest(const Meeting& meeting) const {
    InstructionTimes times;
    for (const auto& [rank, item, ready] : meeting.joined) {
      times.all = std::max(times.all, duration(rank, item));
      times.wire = std::max(times.wire, wire_seconds(rank, item));
    }
    return times;
  }

  void hold(Meeting& meeting, double end) {
    for (const auto& [rank, item, ready] : meeting.joined) {
      finish(rank, item, meeting.start, end);
      release(index_of(rank, instruction_of(rank, item).queue), end);
    }
    meeting.joined.clear();
    meeting.joined.shrink_to_fit();
  }

  void ask(const StartRequest& request) {
    requests_.push_back(request);
    std::ranges::push_heap(requests_, std::greater<>{});
  }

  /// Lets the next thing happen on the shared wires: whichever comes first, somebody begins to move or somebody is done.
  bool pass_time() {
    const double end = traffic_.next_end();
    if (!requests_.empty() && requests_.front().ready < end) {
      std::ranges::pop_heap(requests_, std::greater<>{});
      const StartRequest request = requests_.back();
      requests_.pop_back();
      begin(request);
      return true;
    }
    if (end == std::numeric_limits<double>::infinity()) return false;
    const int user = traffic_.end_next();
    arrive(user, end);
    return true;
  }

  void begin(const StartRequest& request) {
    Moving& moving = moving_[static_cast<std::size_t>(request.user)];
    if (moving.busy) {
      moving.behind.push_back(request);
      return;
    }
    moving.busy = true;
    moving.sequence = request.sequence;
    moving.start = request.ready;
    moving.times = times_of(request);
    traffic_.begin(request.user, request.ready, moving.times.wire);
  }

  InstructionTimes times_of(const StartRequest& request) const {
    const auto streams = static_cast<int>(wires_.streams());
    if (request.user >= streams)
      return longest(meetings_[static_cast<std::size_t>(request.user - streams)][static_cast<std::size_t>(request.sequence)]);
    const Stream& stream = streams_[static_cast<std::size_t>(request.user)];
    const auto& [sender, receiver] = stream.messages[stream.moved];
    return {message_seconds(sender, receiver), wire_seconds(sender.rank, sender.item)};
  }

  /// The last byte has left; its latency is still to come.
  void arrive(int user, double at) {
    Moving& moving = moving_[static_cast<std::size_t>(user)];
    const Moving done = std::exchange(moving, {});
    const double end = at + (done.times.all - done.times.wire);
    const auto streams = static_cast<int>(wires_.streams());
    if (user < streams) {
      Stream& stream = streams_[static_cast<std::size_t>(user)];
      stream.served = false;
      move(stream, done.start, end);
      move_messages(user);
    } else {
      Meeting& meeting = meetings_[static_cast<std::size_t>(user - streams)][static_cast<std::size_t>(done.sequence)];
      meeting.start = done.start;
      hold(meeting, end);
    }
    for (StartRequest request : done.behind) ask({std::max(at, request.ready), request.user, request.sequence});
  }

  /// The head of a serial queue has met its partners and ends.
  void release(int queue, double end) {
    QueueState& state = state_of(queue);
    if (!program::runs_one_at_a_time(queue_of(queue))) return;
    state.joined = false;
    state.available = end;
    ++state.head;
    work_.push_back(queue);
  }

  void finish(int rank, int item, double start, double end) {
    rank_at(rank).moments[static_cast<std::size_t>(item)] = {start, end};
    int& first = waiters_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(item)];
    for (int queue = first; queue != nobody; queue = state_of(queue).next_waiter) {
      state_of(queue).waiting = false;
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
    const Instruction& instruction = rank.instruction(rank.listing.first_instruction(item));
    const int microbatch = rank.listing.items[static_cast<std::size_t>(item)].microbatch;
    return instruction.per_microbatch ? text("\"", instruction.name, "\" of microbatch ", microbatch) : text("\"", instruction.name, "\"");
  }

  [[noreturn]] void throw_stuck(int queue) {
    const SimulatedRank& rank = rank_at(rank_of(queue));
    const int item = order_of(queue)[state_of(queue).head];
    std::string what =
        instruction_of(rank_of(queue), item).as<program::MessageEnd>() != nullptr ? "its other end" : "the other members of its group";
    for (const Awaited& wait : rank.listing.waits_of(item))
      if (!rank.moments[static_cast<std::size_t>(wait.item)].done()) what = name_of(rank, wait.item);
    throw Error{ErrorKind::internal, text("the program never ends: rank ", rank.kind->ranks.front(), " cannot finish ", name_of(rank, item),
                                          ", which waits for ", what)};
  }
  [[noreturn]] void throw_unmet(const SimulatedRank& rank, int item) const {
    throw Error{ErrorKind::internal,
                text("the program never ends: ", name_of(rank, item), " of rank ", rank.kind->ranks.front(), " never meets its other end")};
  }

  const Program& program_;
  const RankPartition& kinds_;
  /// Of a user of wires.
  struct Moving {
    bool busy = false;
    int sequence = 0;
    double start = 0;
    InstructionTimes times;
    std::vector<StartRequest> behind;  // collectives of one kind of group on two queues
  };

  Wires wires_;
  Traffic traffic_;
  CollectiveCosts collectives_;
  std::vector<Moving> moving_;
  std::vector<SimulatedRank> ranks_;
  std::vector<std::vector<Course>> courses_;                      // by rank and instruction
  std::vector<std::vector<std::array<double, 2>>> wire_seconds_;  // by rank and instruction
  std::vector<QueueState> queues_;
  std::vector<std::vector<int>> waiters_;  // by rank and item: the first queue that waits for it
  std::vector<Stream> streams_;
  std::vector<std::vector<Meeting>> meetings_;  // by kind of group and number
  std::vector<StartRequest> requests_;          // a heap, the earliest first
  std::vector<int> work_;
};

}  // namespace

std::vector<SimulatedRank> run_machine(const Program& program, const RankPartition& kinds, const InstructionCost& cost) {
  auto ranks = Machine{program, kinds, cost}.run();
  const AddedSeconds added = interference(program, ranks, cost);
  if (added.empty()) return ranks;
  return Machine{program, kinds, cost, added}.run();
}

}  // namespace flotilla::simulate
