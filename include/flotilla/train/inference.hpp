#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "flotilla/checkpoint/state.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/compute/token_score.hpp"
#include "flotilla/model/tensors.hpp"
#include "flotilla/program/program.hpp"
#include "flotilla/train/options.hpp"

namespace flotilla::train {

/// The logits that this rank has of a microbatch.
struct LogitRows {
  std::int64_t rows = 0;                                   ///< sequences * length
  model::UnitRange columns;                                ///< of the vocabulary
  std::function<std::vector<float>(std::int64_t row)> of;  ///< a token's, by column
};

/// One forward pass. Sequences are numbered as the program deals them, from 0. Called on the thread of Inference::run.
struct ForwardPass {
  std::int64_t cached = 0;  ///< tokens of every sequence that the caches hold: positions go on from there
  /// Fills length + 1 tokens of a sequence: the last is a target only. Called wherever the embedding or the head is.
  std::function<void(int sequence, std::span<std::int32_t> tokens)> read;
  /// Where each of a sequence's tokens but the last has its document begin: data::Sampler::document_starts. Called wherever the programs
  /// keep documents apart, and only there.
  std::function<void(int sequence, std::span<std::int32_t> starts)> read_documents;
  /// Scores of the targets of the sequences from `first` on: (sequences, length). On one rank, the same in every pass. Empty: not wanted.
  std::function<void(int first, std::span<const compute::TokenScore>)> take_scores;
  /// On every rank that has columns of the vocabulary. Empty: not wanted.
  std::function<void(const LogitRows&)> take_logits;
};

/// Executes forward passes of a model that nothing trains, on this rank.
///
/// Every member of the ranks `active` makes one (collective) and calls the same functions in the same order.
class Inference {
 public:
  /// `programs`: one or two of program::lower_inference, of plans that differ in length alone, with the same runtime, sequences and
  /// `cache`; they share weights and caches. Throws Error{unavailable} when the memory cannot be had; comm::AgreedError when a group fails
  /// its proof.
  Inference(const comm::World& active, std::vector<program::Program> programs, int cache, const Options&);
  ~Inference();
  Inference(const Inference&) = delete;
  Inference& operator=(const Inference&) = delete;

  /// This rank's parameters, to be filled once; it owns none, and there are no moments. Before adopt(). Local.
  checkpoint::LocalState state();
  /// After state() was filled: takes the parameters to the device and computes what follows from them. Once. Local.
  void adopt();
  /// One pass of program number `program`. Collective. Throws Error{communication} when nothing moves for the deadline.
  void run(std::size_t program, const ForwardPass&);

  Bytes arena() const;
  /// What computes here: Backend::description().
  std::string description() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace flotilla::train
