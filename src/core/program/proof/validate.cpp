#include <algorithm>
#include <map>
#include <set>

#include "flotilla/base/error.hpp"
#include "flotilla/program/collectives.hpp"
#include "flotilla/program/program.hpp"
#include "memory_rule.hpp"

namespace flotilla::program {
namespace {

constexpr std::size_t all_ranks_up_to = 64;  // below this every rank is checked, above it one column of replicas of each kind

using Violations = std::vector<Violation>;

bool in_range(int index, std::size_t size) { return index >= 0 && static_cast<std::size_t>(index) < size; }

// ---- structure: every reference points at something, every wait at something earlier ----

/// Indices of the parts that its work names; -1 among them: none.
std::vector<int> parts_of(const Instruction& instruction) {
  return std::visit(
      [](const auto& work) -> std::vector<int> {
        if constexpr (requires { work.token_embedding_part; })
          return {work.part, work.token_embedding_part};
        else if constexpr (requires { work.part; })
          return {work.part};
        else
          return {};
      },
      instruction.work);
}

void check_instruction(const RankClass& c, const Instruction& instruction, Violations& out) {
  const auto wrong = [&](const auto&... what) {
    out.push_back({Violation::Rule::structure, text("stage ", c.stage, " '", instruction.name, "': ", what...)});
  };
  std::set<Role> roles;
  for (const auto& access : instruction.accesses) {
    if (!in_range(access.buffer, c.buffers.size())) wrong("buffer ", access.buffer, " of ", c.buffers.size());
    if (!roles.insert(access.role).second) wrong("role ", static_cast<int>(access.role), " named twice");
  }
  for (const auto& wait : instruction.waits) {
    if (!in_range(wait.instruction, c.instructions.size()))
      wrong("waits for instruction ", wait.instruction, " of ", c.instructions.size());
    if (wait.lag < last_run) wrong("waits with lag ", wait.lag);
  }
  for (int part : parts_of(instruction))
    if (part >= 0 && !in_range(part, c.parts.size())) wrong("part ", part, " of ", c.parts.size());
  if (const auto* message = instruction.as<MessageEnd>(); message != nullptr && message->peer < 0) wrong("a message without a peer");
  if (const auto* collective = instruction.as<Collective>(); collective != nullptr && collective->group < 0)
    wrong("a collective without a group");
}

void check_class(const RankClass& c, Violations& out) {
  const auto wrong = [&](const auto&... what) { out.push_back({Violation::Rule::structure, text("stage ", c.stage, ": ", what...)}); };
  for (const auto& b : c.buffers) {
    if (b.copies < 1) wrong("buffer '", b.name, "' has ", b.copies, " copies");
    if (b.offset.count < 0 || b.offset.count % arena_alignment != 0 || b.stride < b.size || b.offset + b.copies * b.stride > c.arena)
      wrong("buffer '", b.name, "' does not lie in the arena");
  }
  for (const auto& instruction : c.instructions) check_instruction(c, instruction, out);
  for (const auto& block : c.blocks)
    for (const auto& step : block.steps) {
      if (!in_range(step.instruction, c.instructions.size()))
        wrong("a block runs instruction ", step.instruction, " of ", c.instructions.size());
      else if (c.instructions[static_cast<std::size_t>(step.instruction)].per_microbatch &&
               (step.microbatch < 0 || step.microbatch + block.repeat > c.microbatches))
        wrong("a block runs microbatch ", step.microbatch + block.repeat - 1, " of ", c.microbatches);
    }
}

void check_binding(const Program& p, std::size_t rank, Violations& out) {
  const auto& binding = p.ranks[rank];
  const auto wrong = [&](const auto&... what) { out.push_back({Violation::Rule::structure, text("rank ", rank, ": ", what...)}); };
  if (binding.rank_class < 0) return;
  if (!in_range(binding.rank_class, p.classes.size())) return wrong("class ", binding.rank_class, " of ", p.classes.size());
  const auto& c = p.classes[static_cast<std::size_t>(binding.rank_class)];
  for (const auto& instruction : c.instructions) {
    const auto* message = instruction.as<MessageEnd>();
    if (message != nullptr && (!in_range(message->peer, binding.peers.size()) ||
                               !in_range(binding.peers[static_cast<std::size_t>(message->peer)].value, p.ranks.size())))
      wrong("'", instruction.name, "' names no peer");
    const auto* collective = instruction.as<Collective>();
    if (collective == nullptr) continue;
    if (!in_range(collective->group, binding.groups.size()) ||
        !in_range(binding.groups[static_cast<std::size_t>(collective->group)], p.groups.size())) {
      wrong("'", instruction.name, "' names no group");
      continue;
    }
    const auto& members = p.groups[static_cast<std::size_t>(binding.groups[static_cast<std::size_t>(collective->group)])].members;
    if (std::find(members.begin(), members.end(), Rank{static_cast<int>(rank)}) == members.end())
      wrong("'", instruction.name, "' names a group that it is no member of");
  }
}

/// Every run once, and every awaited run that exists comes earlier in issue order.
void check_waits(const RankClass& c, const std::vector<IssuedInstruction>& list, Violations& out) {
  std::map<std::pair<int, int>, int> position;
  std::map<int, int> last;
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    const auto& here = list[static_cast<std::size_t>(i)];
    if (!position.emplace(std::pair{here.instruction, here.microbatch}, i).second)
      out.push_back(
          {Violation::Rule::structure, text("stage ", c.stage, " '", c.instructions[static_cast<std::size_t>(here.instruction)].name,
                                            "' runs twice for microbatch ", here.microbatch)});
    last[here.instruction] = i;
  }
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    const auto& here = list[static_cast<std::size_t>(i)];
    const auto& instruction = c.instructions[static_cast<std::size_t>(here.instruction)];
    for (const auto& wait : instruction.waits) {
      const auto run = wait.lag == last_run ? last.find(wait.instruction) : last.end();
      const auto exact = position.find({wait.instruction, here.microbatch - wait.lag});
      const int target = wait.lag == last_run ? (run == last.end() ? -1 : run->second) : (exact == position.end() ? -1 : exact->second);
      if (target >= i)
        out.push_back(
            {Violation::Rule::cycle, text("stage ", c.stage, " '", instruction.name, "' microbatch ", here.microbatch, " waits for '",
                                          c.instructions[static_cast<std::size_t>(wait.instruction)].name, "', which is issued later")});
    }
  }
}

// ---- the ranks that stand for all ----

std::vector<int> representatives(const Program& p) {
  std::vector<int> chosen;
  std::map<std::vector<int>, int> replica_of_kind;
  std::map<int, std::vector<int>> classes_of_replica;
  for (const auto& binding : p.ranks)
    if (binding.rank_class >= 0) classes_of_replica[binding.replica].push_back(binding.rank_class);
  std::set<int> replicas;
  for (const auto& [replica, classes] : classes_of_replica)
    if (replica_of_kind.emplace(classes, replica).second) replicas.insert(replica);
  std::vector<bool> taken(p.ranks.size());
  for (std::size_t r = 0; r < p.ranks.size(); ++r)
    if (p.ranks[r].rank_class >= 0 && (p.ranks.size() <= all_ranks_up_to || replicas.contains(p.ranks[r].replica))) {
      taken[r] = true;
      chosen.push_back(static_cast<int>(r));
    }
  // Whom they talk to, as far as that goes: columns where stages are dealt alike.
  for (std::size_t i = 0; i < chosen.size(); ++i)
    for (Rank peer : p.ranks[static_cast<std::size_t>(chosen[i])].peers)
      if (peer.index() < taken.size() && !taken[peer.index()]) {
        taken[peer.index()] = true;
        chosen.push_back(peer.value);
      }
  std::ranges::sort(chosen);
  return chosen;
}

struct Lists {
  const Program& program;
  std::vector<int> ranks;
  std::map<int, std::vector<IssuedInstruction>> of;

  const RankClass& class_of(int rank) const {
    return program.classes[static_cast<std::size_t>(program.ranks[static_cast<std::size_t>(rank)].rank_class)];
  }
  const Instruction& instruction(int rank, int position) const {
    return class_of(rank).instructions[static_cast<std::size_t>(of.at(rank)[static_cast<std::size_t>(position)].instruction)];
  }
  int peer(int rank, const MessageEnd& message) const {
    return program.ranks[static_cast<std::size_t>(rank)].peers[static_cast<std::size_t>(message.peer)].value;
  }
  int group(int rank, const Collective& collective) const {
    return program.ranks[static_cast<std::size_t>(rank)].groups[static_cast<std::size_t>(collective.group)];
  }
};

// ---- messages and collectives: both ends say the same, in the same order ----

struct MessageRecord {
  int rank, position;
  int channel;
  std::int64_t first;  ///< byte of the step's activations at that boundary; where a program does not say whose sequences: microbatch
  std::int64_t bytes;
  bool same_as(const MessageRecord& o) const { return channel == o.channel && first == o.first && bytes == o.bytes; }
};
using Ends =
    std::map<std::pair<int, int>, std::pair<std::vector<MessageRecord>, std::vector<MessageRecord>>>;  // (from, to) -> (sends, receives)

std::int64_t first_byte(const Lists& lists, int rank, const Instruction& instruction, int microbatch) {
  const auto& binding = lists.program.ranks[static_cast<std::size_t>(rank)];
  const Access* message = instruction.access(Role::message);
  if (binding.batch_partition < 0 || message == nullptr) return microbatch;
  const auto& c = lists.class_of(rank);
  const auto& firsts = lists.program.first_sequences.at(static_cast<std::size_t>(binding.batch_partition));
  const std::int64_t token = c.buffers[static_cast<std::size_t>(message->buffer)].size.count / c.shape.rows();
  const std::int64_t tokens = std::int64_t{c.sequences(microbatch)} * c.shape.length;
  const std::int64_t own = c.shape.sequence_parallel ? piece(tokens, c.shape.tensor_parallel, binding.tensor_index).first : 0;
  return (std::int64_t{firsts.at(static_cast<std::size_t>(microbatch))} * c.shape.length + own) * token +
         instruction.as<MessageEnd>()->begin(binding.tensor_index, c.sequences(microbatch)).count;
}

Ends message_ends(const Lists& lists) {
  Ends ends;
  for (int rank : lists.ranks) {
    const auto& list = lists.of.at(rank);
    for (int i = 0; i < static_cast<int>(list.size()); ++i) {
      const auto& instruction = lists.instruction(rank, i);
      const auto* end = instruction.as<MessageEnd>();
      if (end == nullptr) continue;
      const int microbatch = list[static_cast<std::size_t>(i)].microbatch, peer = lists.peer(rank, *end);
      const MessageRecord message{rank, i, end->channel, first_byte(lists, rank, instruction, microbatch),
                                  end->size.of(lists.class_of(rank).sequences(microbatch)).count};
      if (end->sends())
        ends[{rank, peer}].first.push_back(message);
      else
        ends[{peer, rank}].second.push_back(message);
    }
  }
  return ends;
}

void check_messages(const Lists& lists, const Ends& ends, Violations& out) {
  for (const auto& [pair, both] : ends) {
    const auto& [sends, receives] = both;
    if (!lists.of.contains(pair.first) || !lists.of.contains(pair.second)) {
      out.push_back({Violation::Rule::message_order, text("rank ", pair.first, " and rank ", pair.second, ": one of them idles")});
      continue;
    }
    const std::size_t common = std::min(sends.size(), receives.size());
    std::size_t k = 0;
    while (k < common && sends[k].same_as(receives[k])) ++k;
    if (k < sends.size() || k < receives.size())
      out.push_back(
          {Violation::Rule::message_order, text("rank ", pair.first, " to rank ", pair.second, ": message ", k,
                                                " differs between the ends (", sends.size(), " sent, ", receives.size(), " received)")});
  }
}

struct CollectiveRecord {
  int position, group;
  std::int64_t bytes;
  CollectiveKind kind;
  bool operator==(const CollectiveRecord& o) const { return group == o.group && bytes == o.bytes && kind == o.kind; }
};

std::vector<CollectiveRecord> collectives_of(const Lists& lists, int rank) {
  std::vector<CollectiveRecord> found;
  const auto& list = lists.of.at(rank);
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    const auto& instruction = lists.instruction(rank, i);
    const auto* collective = instruction.as<Collective>();
    if (collective == nullptr) continue;
    const int sequences = instruction.per_microbatch ? lists.class_of(rank).sequences(list[static_cast<std::size_t>(i)].microbatch) : 0;
    found.push_back({i, lists.group(rank, *collective), collective->size.of(sequences).count, collective->kind});
  }
  return found;
}

/// Two ranks that share groups run the collectives of those groups in one order.
void check_groups(const Lists& lists, const std::map<int, std::vector<CollectiveRecord>>& collectives, Violations& out) {
  const auto shared = [&](int a, int b) {
    std::vector<CollectiveRecord> list;
    for (const auto& collective : collectives.at(a)) {
      const auto& members = lists.program.groups[static_cast<std::size_t>(collective.group)].members;
      if (std::find(members.begin(), members.end(), Rank{b}) != members.end()) list.push_back(collective);
    }
    return list;
  };
  for (std::size_t a = 0; a < lists.ranks.size(); ++a)
    for (std::size_t b = a + 1; b < lists.ranks.size(); ++b)
      if (shared(lists.ranks[a], lists.ranks[b]) != shared(lists.ranks[b], lists.ranks[a])) {
        out.push_back({Violation::Rule::group_order, text("rank ", lists.ranks[a], " and rank ", lists.ranks[b],
                                                          " run the collectives of their groups in different orders")});
        return;
      }
}

// ---- no cycle: everything can start, and what starts ends ----

class Graph {
 public:
  explicit Graph(const Lists& lists) : lists_{lists} {
    for (int rank : lists.ranks) {
      base_[rank] = static_cast<int>(edges_.size());
      edges_.resize(edges_.size() + 2 * lists.of.at(rank).size());
    }
  }
  int start(int rank, int position) const { return base_.at(rank) + 2 * position; }
  int end(int rank, int position) const { return start(rank, position) + 1; }
  int hub() {
    edges_.emplace_back();
    return static_cast<int>(edges_.size()) - 1;
  }
  void edge(int from, int to) { edges_[static_cast<std::size_t>(from)].push_back(to); }

  /// (rank, position) of an instruction that can never start or end, or (-1, -1).
  std::pair<int, int> stuck() const {
    std::vector<int> degree(edges_.size());
    for (const auto& list : edges_)
      for (int to : list) ++degree[static_cast<std::size_t>(to)];
    std::vector<int> ready;
    for (std::size_t n = 0; n < edges_.size(); ++n)
      if (degree[n] == 0) ready.push_back(static_cast<int>(n));
    std::size_t done = 0;
    while (!ready.empty()) {
      const int node = ready.back();
      ready.pop_back();
      ++done;
      for (int to : edges_[static_cast<std::size_t>(node)])
        if (--degree[static_cast<std::size_t>(to)] == 0) ready.push_back(to);
    }
    if (done == edges_.size()) return {-1, -1};
    for (int rank : lists_.ranks)
      for (int i = 0; i < static_cast<int>(lists_.of.at(rank).size()); ++i)
        if (degree[static_cast<std::size_t>(start(rank, i))] > 0 || degree[static_cast<std::size_t>(end(rank, i))] > 0) return {rank, i};
    return {-1, -1};
  }

 private:
  const Lists& lists_;
  std::map<int, int> base_;
  std::vector<std::vector<int>> edges_;
};

void add_local_edges(const Lists& lists, int rank, Graph& graph) {
  const auto& list = lists.of.at(rank);
  std::map<Queue, int> previous;
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    const Queue queue = lists.instruction(rank, i).queue;
    graph.edge(graph.start(rank, i), graph.end(rank, i));
    for (int wait : list[static_cast<std::size_t>(i)].waits) graph.edge(graph.end(rank, wait), graph.start(rank, i));
    const auto before = previous.find(queue);
    const bool overlaps = !runs_one_at_a_time(queue);
    if (before != previous.end())
      graph.edge(overlaps ? graph.start(rank, before->second) : graph.end(rank, before->second), graph.start(rank, i));
    previous[queue] = i;
  }
}

// A message ends when both ends have started: nobody may count on a library's buffer.
void add_message_edges(const Ends& ends, Graph& graph) {
  for (const auto& [pair, both] : ends)
    for (std::size_t k = 0; k < std::min(both.first.size(), both.second.size()); ++k) {
      const auto &send = both.first[k], &receive = both.second[k];
      graph.edge(graph.start(send.rank, send.position), graph.end(receive.rank, receive.position));
      graph.edge(graph.start(receive.rank, receive.position), graph.end(send.rank, send.position));
    }
}

void add_collective_edges(const Lists& lists, const std::map<int, std::vector<CollectiveRecord>>& collectives, Graph& graph) {
  std::map<std::pair<int, int>, int> hubs;  // (group, how many before) -> node
  for (int rank : lists.ranks) {
    std::map<int, int> count;
    for (const auto& collective : collectives.at(rank)) {
      const std::pair key{collective.group, count[collective.group]++};
      auto hub = hubs.find(key);
      if (hub == hubs.end()) hub = hubs.emplace(key, graph.hub()).first;
      graph.edge(graph.start(rank, collective.position), hub->second);
      graph.edge(hub->second, graph.end(rank, collective.position));
    }
  }
}

void check_cycles(const Lists& lists, const Ends& ends, const std::map<int, std::vector<CollectiveRecord>>& collectives, Violations& out) {
  Graph graph{lists};
  for (int rank : lists.ranks) add_local_edges(lists, rank, graph);
  add_message_edges(ends, graph);
  add_collective_edges(lists, collectives, graph);
  const auto [rank, position] = graph.stuck();
  if (rank < 0) return;
  out.push_back({Violation::Rule::cycle, text("rank ", rank, " '", lists.instruction(rank, position).name, "' microbatch ",
                                              lists.of.at(rank)[static_cast<std::size_t>(position)].microbatch, " can never finish")});
}

}  // namespace

std::vector<Violation> validate(const Program& p) {
  Violations out;
  for (const auto& c : p.classes) check_class(c, out);
  for (std::size_t r = 0; r < p.ranks.size() && out.empty(); ++r) check_binding(p, r, out);
  if (!out.empty()) return out;

  Lists lists{p, representatives(p), {}};
  for (int rank : lists.ranks) lists.of[rank] = expand(p, Rank{rank});
  std::set<int> seen;
  for (int rank : lists.ranks) {
    if (!seen.insert(p.ranks[static_cast<std::size_t>(rank)].rank_class).second) continue;
    check_waits(lists.class_of(rank), lists.of.at(rank), out);
    for (auto& violation : check_memory(lists.class_of(rank), lists.of.at(rank))) out.push_back(std::move(violation));
  }
  const auto ends = message_ends(lists);
  check_messages(lists, ends, out);
  std::map<int, std::vector<CollectiveRecord>> collectives;
  for (int rank : lists.ranks) collectives[rank] = collectives_of(lists, rank);
  check_groups(lists, collectives, out);
  if (out.empty()) check_cycles(lists, ends, collectives, out);
  return out;
}

void require_valid(const Program& p) {
  const auto violations = validate(p);
  if (!violations.empty()) throw Error{ErrorKind::internal, "the program is not valid: " + violations.front().what};
}

}  // namespace flotilla::program
