#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "flotilla/base/precision.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/compute/backend.hpp"
#include "flotilla/inference/subject.hpp"
#include "flotilla/train/inference.hpp"

namespace flotilla::inference {

/// How a model is spread over the ranks and computed.
struct ModelLoadOptions {
  int tensor_parallel = 1;
  int pipeline = 0;  ///< stages; 0: as few as fit the memory, where sequences go side by side, else all ranks / tensor_parallel
  Precision precision = Precision::fp32;
  compute::ComputeDevice device{};  ///< of this rank
  int threads = 0;                  ///< compute threads of a rank; 0: its share of the CPUs
  Seconds deadline{600};
};

/// What forward passes are to be made: for scores, of many sequences of one length; for a text that grows, of one sequence.
struct PassShape {
  std::vector<int> lengths;    ///< tokens of a pass, by number of the program: one or two
  int cache = 0;               ///< tokens of the one sequence whose keys and values are kept; 0: many sequences, and nothing is kept
  std::int64_t sequences = 0;  ///< how many are to be read: passes are no larger; 0: any number
  bool documents = false;      ///< of a sequence are kept apart; not with a cache
};

/// A model's weights on the ranks, and the passes over them. Collective over the world, one thread of each rank.
class LoadedModel {
 public:
  /// Throws Error{usage} where the degrees do not suit ranks or model, Error{unavailable} where no plan fits the memory, else as
  /// checkpoint::load and weights::load do; always as comm::AgreedError.
  LoadedModel(const comm::World&, const Subject&, const PassShape&, const ModelLoadOptions&);

  const comm::World& world() const { return world_; }
  const plan::Plan& plan() const { return plan_; }
  const PassShape& shape() const { return shape_; }
  const model::Config& model() const { return plan_.model; }
  int sequences() const { return plan_.global_batch; }  ///< of a pass
  Seconds deadline() const { return deadline_; }
  train::Inference& passes() { return *passes_; }

 private:
  const comm::World& world_;
  const PassShape shape_;
  const Seconds deadline_;
  plan::Plan plan_;  ///< of the first program
  std::unique_ptr<train::Inference> passes_;
};

}  // namespace flotilla::inference
