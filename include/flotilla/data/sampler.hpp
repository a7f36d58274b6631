#pragma once
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "flotilla/data/corpus.hpp"

namespace flotilla::data {

/// Files that a source was given when a run was resumed.
struct Growth {
  std::int64_t step = 0;  ///< steps done by then
  std::size_t files = 0;  ///< sections that the source has from then on
  bool operator==(const Growth&) const = default;
};

/// Where a part of a run's sequences comes from.
struct Source {
  std::string name = {};  ///< "" for the only one of a run
  Corpus corpus = {};
  double weight = 1;                ///< of its sequences among all, relative to the other sources'
  std::int64_t epochs = 0;          ///< at most so many; 0: any number
  std::vector<Growth> growth = {};  ///< in order
  std::size_t files_at_start = 0;   ///< sections before the first growth, where there is one
};

/// Where one sequence is: `length + 1` tokens of one section.
struct Location {
  std::int64_t epoch = 0;
  std::int64_t sequence = 0;  ///< its number among the epoch's sequences, in file order
  int section = 0;            ///< of its source
  std::int64_t first = 0;     ///< token of the file (not of the section)
  int source = 0;
  bool operator==(const Location&) const = default;
};
/// "epoch 0, sequence 27: token 270 of file 0", behind "source 2, " where it is not the first source.
std::ostream& operator<<(std::ostream&, const Location&);

/// Of what a sequence of a step holds, as Sampler::read gives it, and of its place in the step. Sums of these modulo 2^64 tell steps apart,
/// whoever reads which sequence: docs/formats/run-directory.md.
std::uint64_t digest_of(int index, std::span<const std::int32_t> tokens);

struct SamplerOptions {
  std::uint64_t seed = 0;
  int length = 0;        ///< T: inputs of a sequence; T + 1 tokens are read, the targets are shifted by one
  int global_batch = 0;  ///< sequences in a step
  int vocabulary = 0;    ///< every token read is checked against it
  /// A document ends behind every such token, in addition to what files say of its end (TokenFile::document_starts).
  std::optional<std::int32_t> document_end{};
};

/// Steps in a row that draw alike.
struct SamplingPhase {
  std::int64_t first_step = 0;
  int length = 0, global_batch = 0;  ///< as in SamplerOptions, whose own then count for nothing
  std::vector<double> weights = {};  ///< of the sources, relative to each other; 0: takes no part. Empty: their own
};

/// Which sequence is where in which step: a pure function of (seed, step, length, batch, data), the same on every rank whatever the
/// plan, in time that does not depend on the data, in any order.
///
/// Of any n sequences in a row, a source's part is its weight's within ceil(log2(sources)) sequences (docs/design/data.md); one that has
/// given its epochs is left out from there on. A source that grows draws what was not drawn in its epoch, and what is new, before anything
/// again.
///
/// Each epoch of a source cuts every section into sequences that start `length` tokens apart, from an offset of the epoch's own, and
/// shuffles all of them. A sequence's last token is its neighbour's first: as target it counts once. A section of N tokens gives
/// n = floor((N-1) / length) sequences and an offset of up to what is left over; where n >= 32 it gives n-1, and the offset is any of
/// 0 … length-1. Every sequence of an epoch is used exactly once; numbering goes on across epochs, so a step may straddle two.
///
/// Phases of the same length go on in each other's orders. Each length has orders of its own, since it cuts the sections into other
/// sequences; the part of a source's epochs that is drawn at one length is gone at the others.
///
/// Copies share everything. Const members are thread-safe.
class Sampler {
 public:
  /// Of one source. Throws Error{bad_input} when options are impossible or no section holds a sequence: says how many tokens are needed.
  Sampler(Corpus, SamplerOptions);
  /// At least one source; likewise. `phases` begin one behind the other, the first at step 0; none: one phase.
  Sampler(std::vector<Source>, SamplerOptions, std::vector<SamplingPhase> phases = {});

  const SamplerOptions& options() const { return options_; }
  const std::vector<Source>& sources() const;
  const std::vector<SamplingPhase>& phases() const;
  /// At this length, which some phase has; 0: the first one's.
  std::int64_t sequences_per_epoch(int source = 0, int length = 0) const;
  /// Steps for which there are sequences, where every source has a largest number of epochs.
  std::int64_t steps() const;
  /// Sequences of each source in the first `steps` steps.
  std::vector<std::int64_t> drawn(std::int64_t steps) const;

  /// The sequence `index` in [0, global batch) of `step` (from 0).
  Location locate(std::int64_t step, int index) const;

  /// The sequence `index` in [0, sequences_per_epoch(source, length)) of an order that does not depend on the seed, offset 0: for
  /// evaluation, where the first K of them are the same in every run and come from all files of the source.
  Location locate_evaluation(std::int64_t index, int source = 0, int length = 0) const;

  /// Fills `tokens` (the length + 1 of them); ~token for one that does not count in the loss. Throws Error{bad_input} with file and byte
  /// offset for a token outside the vocabulary.
  void read(const Location&, std::span<std::int32_t> tokens) const;
  /// Of the first starts.size() tokens there: the place among them where each one's document begins, 0 where that is before them. Throws
  /// Error{bad_input} with file and byte offset for a damaged index.
  void document_starts(const Location&, std::span<std::int32_t> starts) const;

  /// Names files too short for one sequence of the longest phase, which passes them over; empty when all are used. One line, for a warning.
  std::string unused() const;

 private:
  struct State;
  SamplerOptions options_;
  std::shared_ptr<const State> state_;
};

}  // namespace flotilla::data
