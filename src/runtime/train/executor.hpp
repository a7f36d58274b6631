#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "binding.hpp"
#include "comm_thread.hpp"
#include "flotilla/program/optimizer_shards.hpp"
#include "flotilla/train/trainer.hpp"
#include "poison.hpp"
#include "progress.hpp"

namespace flotilla::train {

/// What the instructions that are not layers need from the step they are in.
struct StepContext {
  std::int64_t step = 0;  ///< from 0; of dropout's key
  StepRequests step_requests;
  compute::AdamW adamw;
  double clip = 0;              ///< 0: no clipping
  std::int64_t loss_scale = 1;  ///< a power of two; gradients are that much larger until the optimizer takes them
  /// Token ids of sequence `index` of the step (or of the evaluation).
  std::function<void(int index, std::span<std::int32_t> tokens)> read_sequence;
  /// Where the documents of that sequence begin: data::Sampler::document_starts.
  std::function<void(int index, std::span<std::int32_t> starts)> read_documents;
  /// Asked before each computation; true: the rest of the step is gone through without computing. Empty: never.
  std::function<bool()> give_up;
  /// Called before an update of parameters. Empty: nobody prepares.
  std::function<void()> before_update;
  std::int64_t cached = 0;  ///< compute::Task's
  /// Of the data, of sequence `index`: its losses are summed with that one's. Empty: all together.
  std::function<int(int index)> source_of;
  /// Of the sequences whose losses this rank has summed by now, modulo 2^64; null: nobody asks.
  const std::uint64_t* digest = nullptr;
  /// Called when an operation of a layer is done, or enqueued. Empty: nobody looks.
  std::function<void(const compute::Task&)> after_layer;
};

/// Runs a bound program, pass after pass: compute instructions on the calling thread, messages and collectives on the communication
/// thread, each when what it waits for is done.
///
/// A step that is given up is drained from then on: messages and sums go on, though empty, so that nobody is left waiting, computations are
/// left out, and the step's sums say so; since every rank waits for these before it updates parameters, no rank updates any. A rank gives
/// up before it has put in its own sums, or not at all.
class Executor {
 public:
  /// `device`: where the backend is a GPU's; else nullptr.
  Executor(Binding&, compute::Backend&, CommThread&, DeviceQueues* device, Seconds deadline, bool poison, bool record);

  /// One pass. Collective over the program's ranks.
  void run(const StepContext&);
  /// The step's sums over all ranks; valid until the next pass.
  const double* totals() const { return reinterpret_cast<const double*>(totals_); }
  /// What gradients of the last step are multiplied with: their loss becomes the mean over the tokens that count, in place of all times
  /// the loss scale.
  double gradient_factor() const;
  /// Whether the last step, with a gradient of this norm, has something to learn from: else parameters, moments and decay stay.
  bool updates(double norm) const;
  /// Of the last pass. Waits for a GPU.
  const std::vector<InstructionSpan>& timeline();

 private:
  enum class Pass : std::uint8_t { whole, drained, summed };  ///< summed: too late to give up
  void wait_for(const BoundInstruction&);
  bool leaves_out(const BoundInstruction&, const StepContext&);
  bool drained(const BoundInstruction&) const;
  void execute(BoundInstruction&, const StepContext&);
  std::byte* await_input(int issued);
  void load(BoundInstruction&, program::Role, int values, const std::function<void(int, std::span<std::int32_t>)>& read);
  void copy_regions(const compute::Task&, const program::RegionCopy&);
  void zero(BoundInstruction&);
  void extract_shard(const compute::Task&, const program::ShardExtraction&);
  void add_squared_norm(const compute::Task&, const program::SquaredNorm&);
  void add_squared_norm_of_shard(const compute::Task&, const program::SquaredNorm&);
  void optimize(const compute::Task&, const program::OptimizerUpdate&, const StepContext&);
  void keep_shard(const compute::Task&, const program::OptimizerUpdate&);
  void optimize_shard(const compute::Task&, const program::OptimizerUpdate&, const compute::AdamW&);
  const program::Part& part(int index) const { return binding_.rank_class().parts[static_cast<std::size_t>(index)]; }
  std::span<const int> sources_of(const compute::Task&, const StepContext&);
  void fill_totals(const StepContext&);
  void fill_data_totals(const StepContext&, const double* scalars, double* totals) const;
  void collect_timeline();

  Binding& binding_;
  compute::Backend& backend_;
  CommThread& comm_;
  DeviceQueues* const device_;
  const Seconds deadline_;
  Progress progress_;
  EventCount finished_;
  Poison poison_;
  std::byte* scalars_ = nullptr;
  std::byte* totals_ = nullptr;
  std::vector<std::vector<std::uint8_t>> decays_;                          ///< by part, by slot
  std::vector<std::vector<std::uint8_t>> owned_;                           ///< by part, by slot: counts in this rank's squared norm
  std::vector<program::ShardPiece> pieces_;                                ///< where optimizers are sharded
  std::vector<std::vector<std::vector<program::ShardRange>>> row_ranges_;  ///< by part and share
  std::vector<int> sources_;                                               ///< of a microbatch's sequences
  program::Part piece_part_;                                               ///< a piece as a part of one slot
  std::function<bool(BoundInstruction&)> before_start_;
  const StepContext* context_ = nullptr;
  float loss_factor_;                    ///< of a token's loss in the mean over all tokens of the global batch
  std::size_t sums_ = 0;                 ///< place of the instruction that puts in this rank's
  std::atomic<Pass> pass_{Pass::whole};  ///< the compute thread makes it drained, the communication thread ends the choice
  bool record_;
  std::vector<Seconds> started_, ended_;
  std::vector<InstructionSpan> timeline_;
};

}  // namespace flotilla::train
