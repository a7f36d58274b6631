#include <algorithm>
#include <map>
#include <set>

#include "event_graph.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/program/program.hpp"
#include "memory_rule.hpp"
#include "rank_lists.hpp"

namespace flotilla::program {
namespace {

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

// ---- messages and collectives: both ends say the same, in the same order ----

void check_messages(const RankLists& lists, const MessageEnds& ends, Violations& out) {
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

/// Two ranks that share groups run the collectives of those groups in one order.
void check_groups(const RankLists& lists, const std::map<int, std::vector<CollectiveRecord>>& collectives, Violations& out) {
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

void check_cycles(const RankLists& lists, Violations& out) {
  const auto [rank, position] = EventGraph{lists, {}}.stuck();
  if (rank >= 0) out.push_back({Violation::Rule::cycle, text(lists.describe(rank, position), " can never finish")});
}

}  // namespace

std::vector<Violation> validate(const Program& p) {
  Violations out;
  for (const auto& c : p.classes) check_class(c, out);
  for (std::size_t r = 0; r < p.ranks.size() && out.empty(); ++r) check_binding(p, r, out);
  if (!out.empty()) return out;

  const RankLists lists{p, representatives(p)};
  std::set<int> seen;
  for (int rank : lists.ranks) {
    if (!seen.insert(p.ranks[static_cast<std::size_t>(rank)].rank_class).second) continue;
    check_waits(lists.class_of(rank), lists.of.at(rank), out);
    for (auto& violation : check_memory(lists.class_of(rank), lists.of.at(rank))) out.push_back(std::move(violation));
  }
  check_messages(lists, lists.messages(), out);
  check_groups(lists, lists.collectives(), out);
  if (out.empty()) check_cycles(lists, out);
  return out;
}

void require_valid(const Program& p) {
  const auto violations = validate(p);
  if (!violations.empty()) throw Error{ErrorKind::internal, "the program is not valid: " + violations.front().what};
}

}  // namespace flotilla::program
