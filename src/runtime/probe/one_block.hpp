#pragma once
#include <memory>
#include <vector>

#include "coverage.hpp"
#include "flotilla/compute/backend.hpp"
#include "flotilla/program/program.hpp"

namespace flotilla::probe {

/// Zeroed pages that cost memory only where they are touched.
class Pages {
 public:
  /// Throws Error{unavailable}.
  explicit Pages(Bytes size);
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages();
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The model with a single block, lowered as a training program for one tensor-parallel group, of which this is member 0, and its compute
/// instructions run in order on this device: the trainer's own operands, layouts and cache traffic, without the messages. Values are those
/// of an untrained model; what other members would contribute to sums is missing, which changes no operation's work.
class OneBlock {
 public:
  /// Builds the program, not yet the memory.
  OneBlock(const model::Config&, int length, Shape, int threads);

  /// What run() touches; the optimizer's state is laid out but not touched.
  Bytes memory() const;
  /// Forward and backward multiply-adds of one pass, counted twice.
  double flops() const;
  /// Allocates and fills. Throws Error{unavailable}.
  void prepare();
  /// One pass over all operations; `seconds` gets one value per model::Operation.
  void pass(std::vector<Seconds>& seconds);
  /// One operation on whatever stands in its operands.
  Seconds run(model::Operation);

 private:
  const program::RankClass& rank_class() const { return program_.classes[static_cast<std::size_t>(program_.ranks[0].rank_class)]; }
  std::byte* at(int buffer) const;
  void fill_part(const program::Part&);
  void fill_tokens();
  void fill_activations();
  void fill_other_members_stats();
  void gather_stats(const program::Site&);
  compute::Task task(const program::Site&) const;

  model::Config model_;
  int length_;
  Shape shape_;
  int threads_;
  program::Program program_;
  std::vector<program::Instruction> order_;
  std::unique_ptr<Pages> arena_;
  std::unique_ptr<compute::Backend> backend_;
};

}  // namespace flotilla::probe
