#include "listing.hpp"

#include <algorithm>
#include <utility>

#include "chains.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::simulate {
namespace {

using program::Instruction;
using program::Queue;
using program::RankClass;

constexpr int untracked = -1, whole = -1;

void require_references(const RankClass& c) {
  const auto count = static_cast<int>(c.instructions.size());
  for (const Instruction& instruction : c.instructions)
    for (const auto& wait : instruction.waits)
      FLOTILLA_REQUIRE(wait.instruction >= 0 && wait.instruction < count, ErrorKind::internal, "\"", instruction.name,
                       "\" of the program waits for instruction ", wait.instruction, "; its class has ", count);
  for (const auto& block : c.blocks)
    for (const auto& step : block.steps)
      FLOTILLA_REQUIRE(step.instruction >= 0 && step.instruction < count, ErrorKind::internal, "a block of the program names instruction ",
                       step.instruction, "; its class has ", count);
}

class Lister {
 public:
  Lister(const RankClass& c, const std::vector<int>& slots, const std::vector<char>& local)
      : class_{c}, slots_{slots}, runs_{static_cast<std::size_t>(std::max(1, c.microbatches))} {
    require_references(c);
    make_chains(local);
    track_awaited();
    for (Chain& chain : out_.chains) mark(chain);
    sent_.assign(slots.size(), 0);
    received_.assign(slots.size(), 0);
  }

  Listing run() {
    reserve();
    for (std::size_t b = 0; b < class_.blocks.size(); ++b)
      for (int i = 0; i < class_.blocks[b].repeat; ++i)
        for (const auto& [chain, microbatch] : blocks_[b]) add(chain, microbatch + i);
    return std::move(out_);
  }

 private:
  struct ListedStep {
    int chain, microbatch;
  };
  /// A member whose end others name: by its instruction, or because it is the last one on a queue that is not the chain's.
  struct Record {
    int track = untracked, mark = whole;
  };
  struct Guest {
    Queue queue;
    int mark;
  };
  /// Half-open ranges of both.
  struct Notes {
    std::size_t first_record, first_guest, last_record, last_guest;
  };
  struct Tail {
    Awaited last;
    bool queued = true;  ///< stands in the queue's list, which sees to the order
  };

  const Instruction& instruction(int s) const { return class_.instructions[static_cast<std::size_t>(s)]; }
  const Instruction& first_instruction(const Chain& chain) const {
    return instruction(out_.instructions[static_cast<std::size_t>(chain.first)]);
  }

  void make_chains(const std::vector<char>& local) {
    const auto continued = continued_steps(class_, local);
    blocks_.resize(class_.blocks.size());
    std::vector<int> chain_of;  // by step of all blocks, one after the other
    for (std::size_t b = 0; b < continued.size(); ++b) {
      const auto& steps = class_.blocks[b].steps;
      int open = -1;
      for (std::size_t s = 0; s < steps.size(); ++s) {
        if (!continued[b][s]) {
          if (local[static_cast<std::size_t>(steps[s].instruction)]) open = static_cast<int>(out_.chains.size());
          blocks_[b].push_back({static_cast<int>(out_.chains.size()), steps[s].microbatch});
          out_.chains.emplace_back();
        }
        chain_of.push_back(continued[b][s] ? open : static_cast<int>(out_.chains.size()) - 1);
        ++out_.chains[static_cast<std::size_t>(chain_of.back())].size;
      }
    }
    place_members(chain_of);
  }

  void place_members(const std::vector<int>& chain_of) {
    int first = 0;
    for (Chain& chain : out_.chains) {
      chain.first = first;
      first += std::exchange(chain.size, 0);
    }
    out_.instructions.resize(static_cast<std::size_t>(first));
    auto chain = chain_of.begin();
    for (const auto& block : class_.blocks)
      for (const auto& step : block.steps) {
        Chain& its = out_.chains[static_cast<std::size_t>(*chain++)];
        out_.instructions[static_cast<std::size_t>(its.first + its.size++)] = step.instruction;
      }
  }

  /// Members of a chain but its first wait for each other only.
  void track_awaited() {
    track_.assign(class_.instructions.size(), untracked);
    std::size_t tracks = 0;
    for (const Chain& chain : out_.chains)
      for (const auto& wait : first_instruction(chain).waits)
        if (int& track = track_[static_cast<std::size_t>(wait.instruction)]; track == untracked) track = static_cast<int>(tracks++);
    at_.assign(tracks * runs_, {});
    last_.assign(tracks, {});
  }

  /// Marks the members whose ends must be told, and notes where.
  void mark(Chain& chain) {
    chain.marks = static_cast<int>(out_.marks.size());
    Notes& notes = notes_.emplace_back(Notes{records_.size(), guests_.size(), 0, 0});
    const Queue home = first_instruction(chain).queue;
    const auto instructions = out_.instructions_of(chain);
    for (std::size_t m = 0; m < instructions.size(); ++m) {
      const Queue queue = instruction(instructions[m]).queue;
      const bool last_on_queue = std::none_of(instructions.begin() + static_cast<std::ptrdiff_t>(m) + 1, instructions.end(),
                                              [&](int later) { return instruction(later).queue == queue; });
      const int track = track_[static_cast<std::size_t>(instructions[m])];
      int at = whole;
      if (m + 1 < instructions.size() && (last_on_queue || track != untracked)) {
        at = static_cast<int>(out_.marks.size()) - chain.marks;
        out_.marks.push_back(static_cast<int>(m));
      }
      if (track != untracked) records_.push_back({track, at});
      if (last_on_queue && queue != home) guests_.push_back({queue, at});
      if (last_on_queue && queue == home) chain.home_mark = at;
    }
    chain.mark_count = static_cast<int>(out_.marks.size()) - chain.marks;
    notes.last_record = records_.size();
    notes.last_guest = guests_.size();
  }

  void reserve() {
    std::size_t items = 0;
    for (std::size_t b = 0; b < blocks_.size(); ++b)
      items += blocks_[b].size() * static_cast<std::size_t>(std::max(0, class_.blocks[b].repeat));
    out_.items.reserve(items);
    out_.wait_ranges.reserve(items);
    out_.waits.reserve(2 * items);
  }

  void add(int c, int microbatch) {
    Chain& chain = out_.chains[static_cast<std::size_t>(c)];
    const Instruction& first = first_instruction(chain);
    if (!first.per_microbatch) microbatch = 0;
    if (!first.runs_in(microbatch)) return;
    FLOTILLA_REQUIRE(microbatch >= 0 && static_cast<std::size_t>(microbatch) < runs_, ErrorKind::internal, "\"", first.name,
                     "\" of the program runs for microbatch ", microbatch, " of ", class_.microbatches);
    const int position = static_cast<int>(out_.items.size());
    add_waits(first, microbatch);
    out_.items.push_back({c, microbatch, number(first), out_.marked_runs});
    out_.marked_runs += chain.mark_count;
    ++chain.runs[microbatch == class_.microbatches - 1 ? 1 : 0];
    note(c, position, microbatch);
  }

  void add_waits(const Instruction& instruction, int microbatch) {
    const int first = static_cast<int>(out_.waits.size());
    for (const auto& wait : instruction.waits) {
      const auto track = static_cast<std::size_t>(track_[static_cast<std::size_t>(wait.instruction)]);
      Awaited awaited;
      if (wait.lag == program::last_run)
        awaited = last_[track];
      else if (wait.lag <= microbatch)
        awaited = at_[track * runs_ + static_cast<std::size_t>(microbatch - wait.lag)];
      if (awaited.item >= 0) out_.waits.push_back(awaited);
    }
    const Tail& tail = tails_[static_cast<std::size_t>(instruction.queue)];
    if (!tail.queued) out_.waits.push_back(tail.last);
    out_.wait_ranges.push_back({first, static_cast<int>(out_.waits.size())});
  }

  void note(int chain, int position, int microbatch) {
    const Notes& notes = notes_[static_cast<std::size_t>(chain)];
    for (std::size_t r = notes.first_record; r < notes.last_record; ++r) {
      const auto [track, at] = records_[r];
      const auto t = static_cast<std::size_t>(track);
      at_[t * runs_ + static_cast<std::size_t>(microbatch)] = last_[t] = {position, at};
    }
    const auto home = static_cast<std::size_t>(first_instruction(out_.chains[static_cast<std::size_t>(chain)]).queue);
    out_.queues[home].push_back(position);
    tails_[home] = {};
    for (std::size_t g = notes.first_guest; g < notes.last_guest; ++g)
      tails_[static_cast<std::size_t>(guests_[g].queue)] = {{position, guests_[g].mark}, false};
  }

  int number(const Instruction& instruction) {
    if (const auto* message = instruction.as<program::MessageEnd>()) {
      FLOTILLA_REQUIRE(message->peer >= 0 && static_cast<std::size_t>(message->peer) < slots_.size(), ErrorKind::internal, "\"",
                       instruction.name, "\" of the program names peer slot ", message->peer, "; its rank has ", slots_.size());
      const auto slot = static_cast<std::size_t>(slots_[static_cast<std::size_t>(message->peer)]);
      return message->sends() ? sent_[slot]++ : received_[slot]++;
    }
    const auto* collective = instruction.as<program::Collective>();
    if (collective == nullptr) return 0;
    FLOTILLA_REQUIRE(collective->group >= 0, ErrorKind::internal, "\"", instruction.name, "\" of the program names no group");
    const auto group = static_cast<std::size_t>(collective->group);
    if (joined_.size() <= group) joined_.resize(group + 1);
    return joined_[group]++;
  }

  const RankClass& class_;
  const std::vector<int>& slots_;
  std::size_t runs_;
  std::vector<std::vector<ListedStep>> blocks_;  // of chains
  std::vector<int> track_;                       // by instruction
  std::vector<Awaited> at_, last_;               // by (track, microbatch); of a track's latest run
  std::vector<Record> records_;
  std::vector<Guest> guests_;
  std::vector<Notes> notes_;                      // by chain
  std::array<Tail, program::queue_count> tails_;  // latest by queue
  std::vector<int> sent_, received_, joined_;     // how many so far, by folded slot and group slot
  Listing out_;
};

}  // namespace

Listing list_instructions(const RankClass& c, const std::vector<int>& slots, const std::vector<char>& local) {
  return Lister{c, slots, local}.run();
}

}  // namespace flotilla::simulate
