#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "coverage.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/program/program.hpp"
#include "measured_operations.hpp"
#include "workbench.hpp"

namespace flotilla::probe {

/// How many blocks a measurement runs through: so many that a block's weights and gradients have left the nearer caches when it comes round
/// again, as in training; no more than the model has; of windows by turns, all. Large models need one, and their number of blocks does not
/// matter then.
int distinct_blocks(const model::Config&, const MeasuredShape&);

/// The model with a few blocks, lowered as a training program for one tensor-parallel group, of which this is member 0, and its compute
/// instructions run in order on this device: the trainer's own operands, layouts and cache traffic, without the messages. Values are those
/// of an untrained model; what other members would contribute to sums is missing, which changes no operation's work.
class FewBlocks {
 public:
  /// Builds the program, not yet the memory. `turns`: where a GPU's memory is taken from; nullptr: an allocation of its own.
  FewBlocks(const model::Config&, int length, MeasuredShape, int threads, int blocks, compute::ComputeDevice device = {},
            std::shared_ptr<TakenInTurns> turns = nullptr);
  /// prepare() draws tokens as often as text has them; else all are equally likely.
  void use_text_tokens() { text_tokens_ = true; }

  bool on_gpu() const { return device_.kind == cluster::DeviceKind::gpu; }
  /// What a pass touches; the optimizer's state is laid out but not touched. On a GPU all of it is taken.
  Bytes memory() const;
  /// Forward and backward multiply-adds of one pass, counted twice.
  double flops() const;
  /// Makes the backend, at the first call, and takes the memory. Throws Error{unavailable}.
  void open();
  /// Opens, unless open() was called just before, touches the memory and fills it.
  void prepare();
  /// Gives the memory back, or leaves it to the next one whose turn it is; what the matrix library has made stays for the next prepare().
  void release() { arena_.reset(), beside_.reset(), is_fresh_ = false; }
  /// One pass over all operations; the seconds of every run are added to `samples`, by measured_index(). Where blocks see windows by turns,
  /// an operation is their mean, as model::flops counts it, and a pass one run of it. Time is read off `clock`.
  void pass(std::vector<std::vector<double>>& samples, Clock clock = now);
  /// After a pass its backward passes once more, in halves, as a zero-bubble schedule makes them: those of the inputs in order, then those
  /// of the weights. Their operands are what the pass left: other values, the same work.
  void halves(std::vector<std::vector<double>>& samples, Clock clock = now);
  /// One operation on whatever stands in its operands.
  Seconds run(model::Operation);
  /// The optimizer's step on every part, from moments of zero after prepare().
  void update();
  /// Of the gradients and the parameters. Waits for the device.
  std::uint64_t digest() const;

 private:
  const program::RankClass& rank_class() const { return program_.classes[static_cast<std::size_t>(program_.ranks[0].rank_class)]; }
  std::byte* at(int buffer) const;
  compute::Backend& backend() const { return bench_->backend(); }
  void touch();
  void fill_part(const program::Part&);
  void fill_tokens();
  void fill_activations();
  void fill_other_members_stats();
  void gather_stats(const program::Instruction&);
  compute::Task task(const program::Instruction&, const program::LayerOperation&) const;
  compute::Task half(compute::Task whole, model::Operation) const;
  void run(const compute::Task&, Clock);
  void collect(std::vector<std::vector<double>>& samples);
  std::int64_t elements_of(const program::Access&) const;
  void fill_with(std::byte* to, std::span<const float> numbers, std::int64_t elements, bool narrowed);
  Bytes kept_in_all() const;
  Bytes workspace_of_halves() const;

  model::Config model_;
  int length_;
  MeasuredShape shape_;
  int threads_;
  program::Program program_;
  std::vector<program::IssuedInstruction> order_;
  compute::ComputeDevice device_;
  std::shared_ptr<TakenInTurns> turns_;
  bool text_tokens_ = false, is_fresh_ = false;
  std::unique_ptr<DeviceMemory> arena_, beside_;          ///< where the memory is not taken in turns
  std::byte *arena_at_ = nullptr, *beside_at_ = nullptr;  ///< beside: what halves keep, block by block, then their workspace
  std::unique_ptr<Workbench> bench_;
  std::vector<std::size_t> run_;  ///< measured_index() of the runs whose times are not collected yet
};

}  // namespace flotilla::probe
