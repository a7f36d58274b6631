#include "boundary_messages.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "flotilla/base/error.hpp"
#include "flotilla/program/collectives.hpp"
#include "index.hpp"

namespace flotilla::program {
namespace {

/// Tokens of the step, half-open.
struct Range {
  std::int64_t first = 0, last = 0;
  std::int64_t count() const { return last - first; }
  Range meet(const Range& o) const { return {std::max(first, o.first), std::min(last, o.last)}; }
};

Range piece_of(const Range& whole, int members, int index) {
  const Piece p = piece(whole.count(), members, index);
  return {whole.first + p.first, whole.first + p.last};
}

/// One end of a crossing.
struct Side {
  const plan::Replica* replica = nullptr;
  plan::Microbatch microbatch;
};

/// Collects the boundary messages of one use, microbatches with the same ones together.
class Pile {
 public:
  /// `shared`: between stages too, members hold their own pieces alone.
  Pile(std::vector<Rank>& peers, std::int64_t length, bool shared) : peers_{peers}, length_{length}, shared_{shared} {}

  /// Between member `mine` of `here` and each member of `there`: what `sender` sends of `shared` and `receiver` takes into its piece.
  void add(const Side& here, int mine, const Side& there, const plan::Microbatch& shared, bool sends, int microbatch) {
    const Range both = tokens(shared), taken = tokens(sends ? there.microbatch : here.microbatch);
    for (int theirs = 0; theirs < there.replica->tensor_parallel; ++theirs) {
      const int from = sends ? mine : theirs, to = sends ? theirs : mine;
      const Side &sender = sends ? here : there, &receiver = sends ? there : here;
      const Range held = shared_ ? piece_of(tokens(sender.microbatch), sender.replica->tensor_parallel, from).meet(both)
                                 : piece_of(both, sender.replica->tensor_parallel, from);
      const Range slice = held.meet(piece_of(taken, receiver.replica->tensor_parallel, to));
      if (slice.count() <= 0) continue;
      const int slot = slot_of(there.replica->devices[at(theirs)]);
      const Range own = tokens(here.microbatch);  // where the buffer begins
      const std::int64_t begin = shared_ ? piece_of(own, here.replica->tensor_parallel, mine).first : own.first;
      found_[{slice.first - begin, slot, slice.count()}].push_back(microbatch);
    }
  }

  std::vector<BoundaryMessage> boundary_messages(int microbatches) const {
    std::vector<BoundaryMessage> list;
    for (const auto& [where, runs] : found_) {
      const auto [first, slot, tokens] = where;
      const bool always = static_cast<int>(runs.size()) == microbatches;
      list.push_back({slot, first, tokens, always ? std::vector<Runs>{} : runs_of(runs)});
    }
    return list;
  }

  int slot_of(Rank rank) {
    const auto found = std::ranges::find(peers_, rank);
    if (found != peers_.end()) return static_cast<int>(found - peers_.begin());
    peers_.push_back(rank);
    return static_cast<int>(peers_.size()) - 1;
  }

 private:
  Range tokens(const plan::Microbatch& m) const { return {m.first * length_, m.last() * length_}; }

  std::vector<Rank>& peers_;
  std::int64_t length_;
  bool shared_;
  std::map<std::tuple<std::int64_t, int, std::int64_t>, std::vector<int>> found_;  // (first, slot, tokens) -> microbatches
};

/// Whether every member of a tensor-parallel group talks to the one of its own index alone, about equal pieces of any microbatch.
bool talks_straight(const plan::Replica& a, const plan::Replica& b, int length) {
  return a.tensor_parallel == b.tensor_parallel && length % a.tensor_parallel == 0;
}

}  // namespace

bool any_holds(const std::vector<Runs>& list, int microbatch) {
  return std::ranges::any_of(list, [&](const Runs& runs) { return runs.holds(microbatch); });
}

std::vector<Runs> runs_of(const std::vector<int>& microbatches) {
  std::vector<Runs> list;
  for (std::size_t i = 0; i < microbatches.size();) {
    Runs runs{microbatches[i], 1, 1};
    if (i + 1 < microbatches.size()) runs.stride = microbatches[i + 1] - microbatches[i];
    std::size_t next = i + 1;
    while (next < microbatches.size() && microbatches[next] == microbatches[i] + runs.count * runs.stride) ++runs.count, ++next;
    if (runs.count == 1) runs.stride = 1;
    list.push_back(runs);
    i = next;
  }
  return list;
}

Correspondence::Correspondence(const plan::Plan& plan, const std::vector<plan::BatchPartition>& batch_partitions,
                               const std::vector<schedule::Boundary>& boundaries, int first_trained)
    : plan_{plan}, batch_partitions_{batch_partitions}, boundaries_{boundaries}, first_trained_{first_trained} {}

BoundaryMessages Correspondence::of(int stage, int replica, int tensor_index, std::vector<Rank>& peers) const {
  const Place here{stage, replica, tensor_index};
  BoundaryMessages boundary_messages;
  if (stage > 0) std::tie(boundary_messages.activations_in, boundary_messages.gradients_out) = cross(here, stage - 1, peers);
  if (stage + 1 < static_cast<int>(plan_.stages.size()))
    std::tie(boundary_messages.activations_out, boundary_messages.gradients_in) = cross(here, stage + 1, peers);
  return boundary_messages;
}

void Correspondence::list_peers(int stage, int replica, int tensor_index, std::vector<Rank>& peers) const {
  const Place here{stage, replica, tensor_index};
  for (const int there : {stage - 1, stage + 1}) {
    if (there < 0 || there == static_cast<int>(plan_.stages.size())) continue;
    if (const auto peer = straight(here, there))
      Pile{peers, plan_.length, plan_.sequence_parallel}.slot_of(*peer);
    else
      cross(here, there, peers);
  }
}

std::optional<Rank> Correspondence::straight(const Place& here, int there) const {
  if (!boundaries_[at(std::min(here.stage, there))].alike || batch_partitions_[at(here.stage)][at(here.replica)].empty())
    return std::nullopt;
  const auto &own = replica_of(here.stage, here.replica), &other = replica_of(there, here.replica);
  return talks_straight(own, other, plan_.length) ? std::optional{other.devices[at(here.tensor_index)]} : std::nullopt;
}

const plan::Replica& Correspondence::replica_of(int stage, int replica) const { return plan_.stages[at(stage)].replicas[at(replica)]; }

bool Correspondence::goes_back(int stage, int next_to_it) const {
  return first_trained_ < plan_.stages[at(std::max(stage, next_to_it))].first_layer;
}

Correspondence::BothWays Correspondence::cross(const Place& here, int there, std::vector<Rank>& peers) const {
  const auto& boundary = boundaries_[at(std::min(here.stage, there))];
  if (!boundary.alike) return through_crossings(here, there, boundary, peers);
  const auto& mine = batch_partitions_[at(here.stage)][at(here.replica)];
  if (mine.empty()) return {};
  if (const auto peer = straight(here, there)) {
    const int pieces = replica_of(here.stage, here.replica).tensor_parallel;
    const BoundaryMessage piece{Pile{peers, plan_.length, plan_.sequence_parallel}.slot_of(*peer), 0, 0, {}, pieces};
    return {{piece}, goes_back(here.stage, there) ? std::vector{piece} : std::vector<BoundaryMessage>{}};
  }
  // Full microbatches are cut alike, wherever they begin; the last may be short.
  const int count = static_cast<int>(mine.size());
  if (mine.back().count == mine.front().count) return along_column(here, there, mine.front().count, {}, peers);
  BothWays all = along_column(here, there, mine.front().count, {{0, count - 1, 1}}, peers);
  const BothWays last = along_column(here, there, mine.back().count, {{count - 1, 1, 1}}, peers);
  all.first.insert(all.first.end(), last.first.begin(), last.first.end());
  all.second.insert(all.second.end(), last.second.begin(), last.second.end());
  return all;
}

/// Of microbatches of `sequences` that pass between replicas of equal number.
Correspondence::BothWays Correspondence::along_column(const Place& here, int there, int sequences, const std::vector<Runs>& runs,
                                                      std::vector<Rank>& peers) const {
  const plan::Microbatch all{0, sequences};
  const Side mine{&replica_of(here.stage, here.replica), all}, theirs{&replica_of(there, here.replica), all};
  const bool later = there > here.stage;
  Pile forward{peers, plan_.length, plan_.sequence_parallel}, back{peers, plan_.length, plan_.sequence_parallel};
  forward.add(mine, here.tensor_index, theirs, all, later, 0);
  if (goes_back(here.stage, there)) back.add(mine, here.tensor_index, theirs, all, !later, 0);
  BothWays found{forward.boundary_messages(1), back.boundary_messages(1)};
  for (auto* list : {&found.first, &found.second})
    for (BoundaryMessage& boundary_message : *list) boundary_message.runs = runs;
  return found;
}

Correspondence::BothWays Correspondence::through_crossings(const Place& here, int there, const schedule::Boundary& boundary,
                                                           std::vector<Rank>& peers) const {
  const bool later = there > here.stage;
  const auto& mine = batch_partitions_[at(here.stage)][at(here.replica)];
  Pile forward{peers, plan_.length, plan_.sequence_parallel}, back{peers, plan_.length, plan_.sequence_parallel};
  for (int c : (later ? boundary.of : boundary.of_next)[at(here.replica)]) {
    const schedule::Crossing& crossing = boundary.crossings[at(c)];
    const auto [own, other, their] = later ? std::tuple{crossing.microbatch, crossing.next_replica, crossing.next_microbatch}
                                           : std::tuple{crossing.next_microbatch, crossing.replica, crossing.microbatch};
    const Side ours{&replica_of(here.stage, here.replica), mine[at(own)]};
    const Side theirs{&replica_of(there, other), batch_partitions_[at(there)][at(other)][at(their)]};
    forward.add(ours, here.tensor_index, theirs, crossing.shared, later, own);
    if (goes_back(here.stage, there)) back.add(ours, here.tensor_index, theirs, crossing.shared, !later, own);
  }
  const int count = static_cast<int>(mine.size());
  return {forward.boundary_messages(count), back.boundary_messages(count)};
}

}  // namespace flotilla::program
