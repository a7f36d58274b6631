#include "flotilla/train/inference.hpp"

#include <algorithm>

#include "execution.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/comm/agree.hpp"

namespace flotilla::train {

class Inference::State {
 public:
  State(const comm::World& active, std::vector<program::Program> programs, int cache, const Options& options)
      : rank_{active.rank()},
        programs_{std::move(programs)},
        arena_{comm::agree_on(
            active, "taking the arena", [&] { return take_arena(options); }, options.deadline)},
        connections_{active, programs_.front(), programs_.size() > 1 ? &programs_.back() : nullptr, nullptr, options},
        comm_{active, options.deadline} {
    int channel_base = 0;
    for (const auto& program : programs_) {
      auto& backend = backends_.emplace_back(compute::make_backend(setup_of(program, rank_, options, cache)));
      auto& execution = executions_.emplace_back(std::make_unique<Execution>(program, active, no_pinned_, no_gpu_, *arena_, connections_,
                                                                             *backend, comm_, channel_base, options));
      set_scratch(*backend, execution->binding());
      channel_base += channels_per_chunk * program.plan.chunks;
    }
    collect_shards();
  }
  ~State() { comm_.stop(); }

  checkpoint::LocalState local_state() { return {&programs_.front().tensors, held_}; }

  void adopt() {
    for (const auto& part : rank_class().parts)
      if (part.weights != part.parameters)
        backends_.front()->convert({values_of(part), static_cast<std::size_t>(part.elements)}, binding().buffer(part.weights));
  }

  void run(std::size_t number, const ForwardPass& pass) {
    StepContext context;
    context.cached = pass.cached;
    context.read_sequence = pass.read;
    context.after_layer = [&](const compute::Task& task) { show(number, task, pass); };
    executions_.at(number)->executor().run(context);
  }

  Bytes arena() const { return arena_->size(); }
  std::string description() const { return backends_.front()->description(); }

 private:
  const Binding& binding() const { return executions_.front()->binding(); }
  const program::RankClass& rank_class() const { return binding().rank_class(); }

  std::unique_ptr<Arena> take_arena(const Options& options) const {
    FLOTILLA_REQUIRE(options.device.kind == compute::DeviceKind::cpu, ErrorKind::unavailable, "models are looked at on CPUs only");
    Bytes most;
    for (const auto& program : programs_) most = std::max(most, class_of(program, rank_).arena);
    return std::make_unique<Arena>(most);
  }

  float* values_of(const program::Part& part) const { return reinterpret_cast<float*>(binding().buffer(part.parameters)); }

  void collect_shards() {
    const auto& program = programs_.front();
    for (const auto& part : rank_class().parts)
      for (const auto& slot : part.slots) {
        checkpoint::LocalTensor local;
        local.tensor = slot.tensor;
        local.shard = plan::shard(program.tensors[static_cast<std::size_t>(slot.tensor)], rank_class().shape.tensor_parallel,
                                  binding().rank_binding().tensor_index);
        local.parameters = {values_of(part) + slot.offset, static_cast<std::size_t>(slot.elements)};
        held_.push_back(std::move(local));
      }
  }

  void show(std::size_t number, const compute::Task& task, const ForwardPass& pass) {
    if (task.operation == model::Operation::head_forward && pass.take_logits) pass.take_logits(logits_of(programs_[number], task));
    const bool speaks = binding().rank_binding().tensor_index == 0;
    if (task.operation != model::Operation::head_loss || !pass.take_scores || !speaks) return;
    scores_.resize(static_cast<std::size_t>(task.sequences) * static_cast<std::size_t>(programs_[number].plan.length));
    backends_[number]->score_targets(task, scores_);
    pass.take_scores(static_cast<int>(task.first_sequence), scores_);
  }

  LogitRows logits_of(const program::Program& program, const compute::Task& task) const {
    const auto& model = program.plan.model;
    const auto& shape = class_of(program, rank_).shape;
    const int index = binding().rank_binding().tensor_index;
    auto mine = shape;
    mine.tensor_index = index;
    return {task.operand<float>(program::Role::logits), std::int64_t{task.sequences} * program.plan.length, model::logits_pitch(model, mine),
            model::share(model.vocabulary, shape.tensor_parallel, index)};
  }

  const Rank rank_;
  const std::vector<program::Program> programs_;
  const std::optional<gpu::PinnedBuffer> no_pinned_;
  const std::optional<gpu::Device> no_gpu_;
  std::unique_ptr<Arena> arena_;
  Connections connections_;
  std::vector<std::unique_ptr<compute::Backend>> backends_;  ///< by program
  CommThread comm_;
  std::vector<std::unique_ptr<Execution>> executions_;  ///< by program
  std::vector<checkpoint::LocalTensor> held_;
  std::vector<compute::TokenScore> scores_;
};

Inference::Inference(const comm::World& active, std::vector<program::Program> programs, int cache, const Options& options)
    : state_{std::make_unique<State>(active, std::move(programs), cache, options)} {}
Inference::~Inference() = default;

checkpoint::LocalState Inference::state() { return state_->local_state(); }
void Inference::adopt() { state_->adopt(); }
void Inference::run(std::size_t program, const ForwardPass& pass) { state_->run(program, pass); }
Bytes Inference::arena() const { return state_->arena(); }
std::string Inference::description() const { return state_->description(); }

}  // namespace flotilla::train
