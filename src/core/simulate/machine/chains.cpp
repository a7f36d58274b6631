#include "chains.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace flotilla::simulate {
namespace {

using program::Block;
using program::Instruction;
using program::Queue;
using program::RankClass;

constexpr int most_passes = 8;  // over a block, until what is known at its start repeats

/// One run of a instruction.
struct ChainRun {
  int instruction = -1, microbatch = 0;
  bool operator==(const ChainRun&) const = default;
};

/// What is certain about one-at-a-time queues at a point of issue order, whatever instructions take.
class Order {
 public:
  const ChainRun& last(Queue q) const { return last_[index(q)]; }
  /// The last instruction issued on `q` ends no later than the last one issued on `other`.
  bool ended(Queue q, Queue other) const { return (ended_[index(q)] & bit(index(other))) != 0; }

  void issue(const Instruction& instruction, const ChainRun& run) {
    if (!program::runs_one_at_a_time(instruction.queue)) return;
    const std::size_t own = index(instruction.queue);
    Queues before = bit(own);  // whose last instructions this one follows
    for (std::size_t q = 0; q < last_.size() && !instruction.waits.empty(); ++q)
      if (awaits(instruction, run, last_[q])) before |= bit(q);
    for (Queues& row : ended_) row = (row & before) != 0 ? row | bit(own) : row & ~bit(own);
    ended_[own] = bit(own);
    last_[own] = run;
    moved_[own] = instruction.per_microbatch;
  }

  void begin_pass() { moved_.fill(false); }
  /// As if the last pass had been made `iterations` later.
  void skip(int iterations) {
    for (std::size_t q = 0; q < last_.size(); ++q)
      if (moved_[q]) last_[q].microbatch += iterations;
  }
  void forget() { ended_.fill(0); }

  static bool awaits(const Instruction& instruction, const ChainRun& run, const ChainRun& other) {
    return std::ranges::any_of(instruction.waits, [&](const program::Wait& wait) { return names(wait, run, other); });
  }
  /// Of the other's latest run, last_run and its own microbatch mean the same.
  static bool names(const program::Wait& wait, const ChainRun& run, const ChainRun& other) {
    return wait.instruction == other.instruction && (wait.lag == program::last_run || run.microbatch - wait.lag == other.microbatch);
  }

  bool knows_the_same(const Order& other) const { return ended_ == other.ended_; }

 private:
  using Queues = std::uint32_t;  // a bit for each
  using Rows = std::array<Queues, program::queue_count>;
  static std::size_t index(Queue q) { return static_cast<std::size_t>(q); }
  static constexpr Queues bit(std::size_t queue) { return Queues{1} << queue; }
  static constexpr Rows all_ended() {
    Rows rows{};
    rows.fill((Queues{1} << program::queue_count) - 1);
    return rows;
  }

  std::array<ChainRun, program::queue_count> last_;
  std::array<bool, program::queue_count> moved_{};  // issued in this pass, once per microbatch
  Rows ended_ = all_ended();
};

class Finder {
 public:
  Finder(const RankClass& c, const std::vector<char>& local) : class_{c}, local_{local} {}

  std::vector<std::vector<char>> run() {
    std::vector<std::vector<char>> found;
    for (const Block& block : class_.blocks) found.push_back(in_block(block));
    return found;
  }

 private:
  std::vector<char> in_block(const Block& block) {
    std::vector<char> continued(block.steps.size(), 1);
    for (int iteration = 0; iteration < block.repeat; ++iteration) {
      const Order before = order_;
      pass(block, iteration, continued);
      const bool settled = iteration > 0 && order_.knows_the_same(before);  // later passes begin as this one did
      if (!settled && iteration < most_passes) continue;
      if (!settled) std::ranges::fill(continued, 0), order_.forget();
      order_.skip(block.repeat - 1 - iteration);
      break;
    }
    return continued;
  }

  void pass(const Block& block, int iteration, std::vector<char>& continued) {
    chain_.clear();
    order_.begin_pass();
    for (std::size_t s = 0; s < block.steps.size(); ++s) {
      const Block::Step& step = block.steps[s];
      const Instruction& instruction = class_.instructions[static_cast<std::size_t>(step.instruction)];
      const ChainRun run{step.instruction, instruction.per_microbatch ? step.microbatch + iteration : 0};
      const bool local = local_[static_cast<std::size_t>(step.instruction)] != 0;
      if (continued[s] && !(local && continues(instruction, run))) continued[s] = 0;
      if (local && !continued[s]) chain_.clear();
      if (local) chain_.push_back(run);
      order_.issue(instruction, run);
    }
  }

  const Instruction& instruction_of(const ChainRun& run) const { return class_.instructions[static_cast<std::size_t>(run.instruction)]; }

  bool continues(const Instruction& instruction, const ChainRun& run) const {
    if (chain_.empty()) return false;
    const ChainRun& before = chain_.back();
    const Instruction& previous = instruction_of(before);
    if (previous.per_microbatch != instruction.per_microbatch || before.microbatch != run.microbatch) return false;
    const bool follows = instruction.queue == previous.queue && order_.last(instruction.queue) == before;
    const bool changes = instruction.queue != previous.queue && instruction_of(chain_.front()).queue == Queue::compute &&
                         order_.last(previous.queue) == before && Order::awaits(instruction, run, before) &&
                         order_.ended(instruction.queue, previous.queue);
    return (follows || changes) && std::ranges::all_of(instruction.waits, [&](const program::Wait& wait) {
             return std::ranges::any_of(chain_, [&](const ChainRun& member) { return Order::names(wait, run, member); });
           });
  }

  const RankClass& class_;
  const std::vector<char>& local_;
  Order order_;
  std::vector<ChainRun> chain_;
};

}  // namespace

std::vector<std::vector<char>> continued_steps(const RankClass& c, const std::vector<char>& local) { return Finder{c, local}.run(); }

}  // namespace flotilla::simulate
