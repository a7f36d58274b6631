#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "flotilla/checkpoint/state.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/data/sampler.hpp"
#include "flotilla/program/host_memory.hpp"
#include "flotilla/program/program.hpp"
#include "flotilla/train/loss_scale.hpp"
#include "flotilla/train/options.hpp"

/// Executes a program on this rank: the arena, the queues, the step.
namespace flotilla::train {

/// What one rank wants to happen after a step; every rank of the active ranks learns of it with the step's sums.
struct StepRequests {
  bool stop = false, save = false;
  bool change = false;  ///< another plan
};

/// Losses of tokens that count.
struct LossSum {
  double loss = 0;
  std::int64_t tokens = 0;
  /// Not a number where none counts.
  double mean() const { return tokens > 0 ? loss / static_cast<double>(tokens) : std::numeric_limits<double>::quiet_NaN(); }
};

/// One step as all ranks of the active ranks know it, bit for bit the same.
struct StepResult {
  double loss = 0;  ///< mean over the tokens of the global batch that count; not a number where none does
  std::int64_t counted_tokens = 0;
  double gradient_norm = 0;  ///< before clipping
  double learning_rate = 0;
  bool finite = true;
  std::int64_t loss_scale = 1;  ///< of this step; other than 1 in fp16 only
  bool overflowed = false;      ///< not finite, and for a gradient that fp16 could not hold: nothing was updated, and the scale was lowered
  int not_finite_ranks = 0;     ///< ranks that met a value that is not finite
  Rank not_finite_rank;         ///< that rank, when it is one
  bool stop = false, save = false, change = false;  ///< some rank wished it
  /// Of the data, where Program::sources has them summed apart: of the tokens of each that count.
  std::vector<LossSum> sources = {};
  std::uint64_t digest = 0;  ///< data::digest_of() of the step's sequences, summed modulo 2^64
  bool given_up = false;     ///< nothing was updated: the state is that of the step before, and the other sums mean nothing

  bool empty() const { return counted_tokens == 0; }  ///< no token counts: nothing to learn, so nothing was updated
  bool updated() const { return finite && !empty() && !given_up; }
};

/// When an instruction ran on this rank, in seconds from the step's begin.
struct InstructionSpan {
  int instruction = 0, microbatch = 0;
  Seconds start, end;
};

/// Ranks that work on a plan are the active ranks: ranks 0 … n-1 of `active`, numbered as in the program. Every member makes one trainer
/// (collective: groups are formed and verified) and calls the same functions in the same order. One thread; a second one, ours, moves
/// messages.
class Trainer {
 public:
  /// Takes all memory that a step needs. `evaluation` and `validation` go together, or neither is given. Ranks may compute on devices of
  /// any kind.
  /// Throws Error{unavailable} when the device or the arena cannot be had; comm::AgreedError when a group fails its proof.
  Trainer(const comm::World& active, program::Program training, std::optional<program::Program> evaluation, data::Sampler training_data,
          std::optional<data::Sampler> validation_data, const Options&);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Parameters as a pure function of (seed, tensor name, element), moments zero. Local.
  void initialize();
  /// After a checkpoint filled state(): refreshes what is computed from it; `optimizer_steps` updates have been made, and the loss scale is
  /// this, or where there is none the one to begin with. Local.
  void adopt(std::int64_t optimizer_steps, const std::optional<LossScale>& = std::nullopt);
  /// This rank's parameters and moments: in the arena, or, where that is on a GPU, in a copy on the host as they are now, which counts
  /// after adopt() and is the same memory in every call. Local.
  checkpoint::LocalState state();
  std::int64_t optimizer_steps() const;
  /// Of the next step, the same on all ranks; none but in fp16.
  std::optional<LossScale> loss_scale() const;

  /// One iteration, `step` counted from 0. Collective over the active ranks. Throws Error{communication} when nothing moves for the
  /// deadline.
  StepResult step(std::int64_t step, const StepRequests& = {});
  /// `transfer_sources` is called between two computations of a step, on the thread of step(). Where it answers true before this rank has
  /// put in its sums, this rank computes no more: messages go on, though empty, so that all ranks come to the end of the step soon, and no
  /// rank updates anything (StepResult::given_up on all). One rank is enough; the more know, the sooner.
  void give_up_when(std::function<bool(std::int64_t step)> transfer_sources);
  /// `prepare` is called on the thread of step() before it updates parameters and moments that state() shows: nothing changes them earlier
  /// in a step. Once or more in a step that updates any.
  void before_updates(std::function<void()> prepare);
  /// Over the evaluation program's sequences of a source of the validation data. Collective.
  LossSum evaluate(int source = 0);

  /// Gradients after a step (summed over the active ranks, times the loss scale, before clipping) of the elements that this rank owns:
  /// every element on one rank. Their loss is the sum over tokens that count, divided by the number of all.
  struct OwnedGradient {
    int tensor = -1;
    std::vector<plan::Box> boxes;  ///< its elements; local offsets are into `values`
    std::span<const float> values;
  };
  std::vector<OwnedGradient> owned_gradients() const;
  /// Gradient of a tensor's shard after a step (summed, scaled and before clipping, likewise); empty when this rank does not hold it.
  /// Where the optimizer is sharded only the sums of this rank's share are in it, if shards line up: owned_gradients() has them.
  std::span<const float> gradient(int tensor) const;
  /// The shard of a tensor that this rank holds.
  const plan::Shard* shard(int tensor) const;

  Bytes arena() const;
  /// In the host's memory, where the rank computes on a GPU.
  program::HostMemory host_memory() const;
  const program::Program& program() const;
  /// Of the last step, in issue order; empty unless Options::record.
  std::span<const InstructionSpan> timeline() const;
  /// What computes here: Backend::description().
  std::string description() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace flotilla::train
