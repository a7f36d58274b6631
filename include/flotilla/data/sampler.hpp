#pragma once
#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "flotilla/data/corpus.hpp"

namespace flotilla::data {

/// Where one sequence is: `length + 1` tokens of one section.
struct Location {
  std::int64_t epoch = 0;
  std::int64_t sequence = 0;  ///< its number among the epoch's sequences, in file order
  int section = 0;
  std::int64_t first = 0;  ///< token of the file (not of the section)
  bool operator==(const Location&) const = default;
};
/// "epoch 0, sequence 27: token 270 of file 0"
std::ostream& operator<<(std::ostream&, const Location&);

struct SamplerOptions {
  std::uint64_t seed = 0;
  int length = 0;        ///< T: inputs of a sequence; T + 1 tokens are read, the targets are shifted by one
  int global_batch = 0;  ///< sequences in a step
  int vocabulary = 0;    ///< every token read is checked against it
};

/// Which sequence is where in which step: a pure function of (seed, step, length, batch, data), the same on every rank whatever the
/// plan, in constant time, in any order.
///
/// Each epoch cuts every section into sequences that start `length` tokens apart, from an offset of the epoch's own, and shuffles all
/// of them. A sequence's last token is its neighbour's first: as target it counts once. A section of N tokens gives
/// n = floor((N-1) / length) sequences and an offset of up to what is left over; where n >= 32 it gives n-1, and the offset is any of
/// 0 … length-1. Every sequence of an epoch is used exactly once; numbering goes on across epochs, so a step may straddle two.
///
/// Copies share the mapped files. Const members are thread-safe.
class Sampler {
 public:
  /// Throws Error{bad_input} when options are impossible or no section holds a sequence: says how many tokens are needed.
  Sampler(Corpus, SamplerOptions);

  std::int64_t sequences_per_epoch() const { return per_epoch_; }
  const SamplerOptions& options() const { return options_; }
  const Corpus& corpus() const { return corpus_; }

  /// The sequence `index` in [0, global_batch) of `step` (from 0).
  Location locate(std::int64_t step, int index) const;

  /// The sequence `index` in [0, sequences_per_epoch()) of an order that does not depend on the seed, offset 0: for evaluation, where the
  /// first K of them are the same in every run and come from all files.
  Location locate_evaluation(std::int64_t index) const;

  /// Fills `tokens` (length + 1 of them). Throws Error{bad_input} with file and byte offset for a token outside the vocabulary.
  void read(const Location&, std::span<std::int32_t> tokens) const;

  /// Names files too short for one sequence, which are passed over; empty when all are used. One line, for a warning.
  std::string unused() const;

 private:
  Location place(std::int64_t epoch, std::int64_t sequence, bool shifted) const;
  Corpus corpus_;
  SamplerOptions options_;
  std::vector<std::int64_t> first_sequence_;  ///< of every section, and the total at the end
  std::int64_t per_epoch_ = 0;
};

}  // namespace flotilla::data
