#include "flotilla/inference/loaded_model.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/compute/backend.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "flotilla/probe/probe.hpp"
#include "flotilla/program/program.hpp"
#include "flotilla/weights/load.hpp"

namespace flotilla::inference {
namespace {

/// Tokens of a microbatch: enough for products that are fast, and few enough for logits that are small.
constexpr int microbatch_tokens = 2048;

class Loading {
 public:
  Loading(const comm::World& world, const Subject& subject, const PassShape& shape, const ModelLoadOptions& options)
      : world_{world}, subject_{subject}, shape_{shape}, options_{options} {}

  /// The plan of every program; the same on all ranks.
  std::vector<plan::Plan> choose() {
    discover();
    return comm::agree_on(
        world_, "spreading the model over the ranks", [&] { return chosen_plans(); }, options_.deadline);
  }

  std::vector<program::Program> lower(const std::vector<plan::Plan>& plans) const {
    std::vector<program::Program> programs;
    for (const auto& plan : plans) {
      programs.push_back(program::lower_inference(plan, runtime_, plan.global_batch, shape_.cache));
      program::require_valid(programs.back());
    }
    return programs;
  }

  train::Options trainer_options() const {
    train::Options options;
    options.device = options_.device;
    options.threads = threads_;
    options.deadline = options_.deadline;
    return options;
  }

 private:
  /// What the ranks compute with.
  void discover() {
    probe::ProbeRequest request;
    request.model = subject_.model;
    request.length = shape_.lengths.front();
    request.device = options_.device;
    request.threads = options_.threads;
    request.deadline = options_.deadline;
    const auto here = probe::discover(world_, request);
    if (world_.rank() == Rank{0} && !here.idle_threads.empty()) log::warning(here.idle_threads);
    threads_ = here.devices[world_.rank().index()].threads;
    for (const auto& device : here.devices) runtime_.threads = std::max(runtime_.threads, device.threads);
    runtime_.placement = program::placement_of(here.devices);
    runtime_.separate_documents = shape_.documents;
    memory_ = *std::ranges::min_element(here.memory);
    const auto mine = comm::agree_on(
        world_, "preparing the matrix library", [&] { return library_scratch().count; }, options_.deadline);
    for (const auto theirs : mpi::all_gather(world_.control(), mine, options_.deadline))
      runtime_.library_scratch.count = std::max(runtime_.library_scratch.count, theirs);
  }

  /// The library asks for as much on every member of a tensor-parallel group, but for odd rows.
  Bytes library_scratch() const {
    const int tensor = options_.tensor_parallel;
    check_degrees();
    Bytes most;
    for (const int length : shape_.lengths) {
      compute::Setup setup{subject_.model, length, tensor, world_.rank().value % tensor, options_.precision, threads_};
      setup.device = options_.device;
      setup.cache = shape_.cache;
      setup.documents = shape_.documents;
      most = std::max(most, compute::library_scratch(setup, microbatch(length)));
    }
    return most;
  }

  void check_degrees() const {
    const int most = model::largest_tensor_parallel(subject_.model), tensor = options_.tensor_parallel;
    FLOTILLA_REQUIRE(tensor <= most, ErrorKind::usage, "--inference.tensor-parallel is ", tensor, "; the model allows at most ", most, ", ",
                     model::limit_of_tensor_parallel(subject_.model));
    FLOTILLA_REQUIRE(world_.size() % tensor == 0, ErrorKind::usage, "--inference.tensor-parallel is ", tensor, "; it must divide the ",
                     world_.size(), " ranks");
  }

  int microbatch(int length) const {
    const int most = shape_.cache > 0 ? 1 : std::max(1, microbatch_tokens / length);
    return shape_.sequences > 0 ? static_cast<int>(std::min<std::int64_t>(most, shape_.sequences)) : most;
  }

  struct Deal {
    int sequences, microbatches;
  };
  /// What each of `data` copies takes in a pass: enough to keep its stages busy, and no more than its part of what is to be read.
  Deal deal(int length, int data, int pipeline) const {
    if (shape_.cache > 0) return {1, 1};
    const int in_flight = pipeline > 1 ? 2 * pipeline : 1;
    if (shape_.sequences == 0) return {microbatch(length), in_flight};
    const std::int64_t mine = (shape_.sequences + data - 1) / data;
    const int sequences = static_cast<int>(std::clamp<std::int64_t>(mine / in_flight, 1, microbatch(length)));
    return {sequences, static_cast<int>(std::min<std::int64_t>(in_flight, (mine + sequences - 1) / sequences))};
  }

  std::vector<plan::Plan> chosen_plans() const {
    const int columns = world_.size() / options_.tensor_parallel;  // of tensor-parallel groups
    if (options_.pipeline > 0) return plans_of(options_.pipeline);
    if (shape_.cache > 0) return plans_of(columns);
    for (int pipeline = 1; pipeline <= std::min(columns, subject_.model.layers()); ++pipeline) {
      if (columns % pipeline != 0) continue;
      auto plans = plans_of(pipeline);
      if (fits(plans)) return plans;
    }
    throw Error{ErrorKind::unavailable, text(subject_.name, ": no plan of ", world_.size(), " ranks fits ", memory_,
                                             " a rank; start more ranks, or ask for --inference.tensor-parallel")};
  }

  std::vector<plan::Plan> plans_of(int pipeline) const {
    const int columns = world_.size() / options_.tensor_parallel, data = columns / pipeline;
    FLOTILLA_REQUIRE(columns % pipeline == 0, ErrorKind::usage, "--inference.pipeline is ", pipeline, "; it must divide the ", columns,
                     " tensor-parallel groups of ", world_.size(), " ranks");
    FLOTILLA_REQUIRE(pipeline <= subject_.model.layers(), ErrorKind::usage, pipeline, " stages for a model of ", subject_.model.layers(),
                     " layers: start fewer ranks, or ask for --inference.tensor-parallel");
    FLOTILLA_REQUIRE(shape_.cache == 0 || data == 1, ErrorKind::usage, "one text is generated by one copy of the model: start ",
                     pipeline * options_.tensor_parallel, " ranks, or leave out --inference.pipeline");
    std::vector<plan::Plan> plans;
    for (const int length : shape_.lengths) {
      const auto [sequences, microbatches] = deal(length, data, pipeline);
      plans.push_back(plan::even_plan(subject_.model, length, data * sequences * microbatches, options_.precision, data, pipeline,
                                      options_.tensor_parallel, sequences));
    }
    return plans;
  }

  bool fits(const std::vector<plan::Plan>& plans) const {
    Bytes most;
    for (const auto& program : lower(plans))
      for (const auto& c : program.classes) most = std::max(most, c.arena);
    return most <= memory_;
  }

  const comm::World& world_;
  const Subject& subject_;
  const PassShape& shape_;
  const ModelLoadOptions& options_;
  program::Runtime runtime_;
  int threads_ = 1;
  Bytes memory_;  ///< of the rank that has least
};

}  // namespace

LoadedModel::LoadedModel(const comm::World& world, const Subject& subject, const PassShape& shape, const ModelLoadOptions& options)
    : world_{world}, shape_{shape}, deadline_{options.deadline} {
  Loading loading{world, subject, shape, options};
  const auto plans = loading.choose();
  plan_ = plans.front();
  auto programs = comm::agree_on(
      world, "lowering the plan", [&] { return loading.lower(plans); }, deadline_);
  passes_ = std::make_unique<train::Inference>(world, std::move(programs), shape.cache, loading.trainer_options());
  if (subject.is_checkpoint)
    checkpoint::load(world, subject.weights, passes_->state(), {deadline_});
  else
    weights::load(world, subject.weights, subject.model, passes_->state(), deadline_);
  passes_->adopt();
}

}  // namespace flotilla::inference
