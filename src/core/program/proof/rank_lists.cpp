#include "rank_lists.hpp"

#include <algorithm>
#include <set>

#include "flotilla/base/error.hpp"
#include "flotilla/program/collectives.hpp"

namespace flotilla::program {
namespace {

constexpr std::size_t all_ranks_up_to = 64;  // below this every rank is checked, above it one column of replicas of each kind

std::int64_t first_byte(const RankLists& lists, int rank, const Instruction& instruction, int microbatch) {
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

std::vector<CollectiveRecord> collectives_of(const RankLists& lists, int rank) {
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

}  // namespace

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

std::vector<int> working_ranks(const Program& p) {
  std::vector<int> chosen;
  for (std::size_t r = 0; r < p.ranks.size(); ++r)
    if (p.ranks[r].rank_class >= 0) chosen.push_back(static_cast<int>(r));
  return chosen;
}

RankLists::RankLists(const Program& of_program, std::vector<int> chosen) : program{of_program}, ranks{std::move(chosen)} {
  for (const int rank : ranks) of[rank] = expand(program, Rank{rank});
}

std::string RankLists::describe(int rank, int position) const {
  return text("rank ", rank, " '", instruction(rank, position).name, "' microbatch ",
              of.at(rank)[static_cast<std::size_t>(position)].microbatch);
}

MessageEnds RankLists::messages() const {
  MessageEnds ends;
  for (int rank : ranks) {
    const auto& list = of.at(rank);
    for (int i = 0; i < static_cast<int>(list.size()); ++i) {
      const auto& instruction = this->instruction(rank, i);
      const auto* end = instruction.as<MessageEnd>();
      if (end == nullptr) continue;
      const int microbatch = list[static_cast<std::size_t>(i)].microbatch, other = peer(rank, *end);
      const MessageRecord message{rank, i, end->channel, first_byte(*this, rank, instruction, microbatch),
                                  end->size.of(class_of(rank).sequences(microbatch)).count};
      if (end->sends())
        ends[{rank, other}].first.push_back(message);
      else
        ends[{other, rank}].second.push_back(message);
    }
  }
  return ends;
}

std::map<int, std::vector<CollectiveRecord>> RankLists::collectives() const {
  std::map<int, std::vector<CollectiveRecord>> all;
  for (const int rank : ranks) all[rank] = collectives_of(*this, rank);
  return all;
}

}  // namespace flotilla::program
