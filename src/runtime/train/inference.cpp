#include "flotilla/train/inference.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/program/host_memory.hpp"
#include "program_execution.hpp"
#include "state_mirror.hpp"

namespace flotilla::train {

class Inference::State {
 public:
  State(const comm::World& active, std::vector<program::Program> programs, int cache, const Options& options)
      : rank_{active.rank()},
        deadline_{options.deadline},
        programs_{std::move(programs)},
        gpu_{comm::agree_on(
            active, "opening the devices", [&] { return open_gpu(options.device); }, options.deadline)},
        arena_{comm::agree_on(
            active, "taking the arena", [&] { return take_arena(); }, options.deadline)},
        pinned_{comm::agree_on(
            active, "taking pinned memory", [&] { return take_pinned(); }, options.deadline)},
        connections_{active, programs_.front(), programs_.size() > 1 ? &programs_.back() : nullptr, gpu_ ? &*gpu_ : nullptr, options},
        comm_{active, options.deadline} {
    int channel_base = 0;
    for (const auto& program : programs_) {
      auto& backend = backends_.emplace_back(compute::make_backend(setup_of(program, rank_, options, cache)));
      auto& execution = executions_.emplace_back(std::make_unique<ProgramExecution>(program, active, pinned_, gpu_, *arena_, connections_,
                                                                                    *backend, comm_, channel_base, options));
      set_scratch(*backend, execution->binding());
      channel_base += channels_per_chunk * program.plan.chunks;
    }
    if (gpu_) mirror_.emplace(*gpu_, *backends_.front()->stream(), options.deadline);
    collect_shards();
  }
  ~State() { comm_.stop(); }

  checkpoint::LocalState local_state() { return {&programs_.front().tensors, held_}; }

  void adopt() {
    if (mirror_) mirror_->upload();
    for (const auto& part : rank_class().parts)
      if (part.weights != part.parameters)
        backends_.front()->convert(
            {reinterpret_cast<const float*>(binding().buffer(part.parameters)), static_cast<std::size_t>(part.elements)},
            binding().buffer(part.weights));
    rest(0);
    held_.clear();
    mirror_.reset();
  }

  void run(std::size_t number, const ForwardPass& pass) {
    StepContext context;
    context.cached = pass.cached;
    context.read_sequence = pass.read;
    context.read_documents = pass.read_documents;
    context.after_layer = [&](const compute::Task& task) { show(number, task, pass); };
    try {
      executions_.at(number)->executor().run(context);
    } catch (...) {
      connections_.give_up();  // what GPUs still exchange, before anything waits for it
      throw;
    }
    rest(number);
  }

  Bytes arena() const { return arena_->size(); }
  std::string description() const { return backends_.front()->description(); }

 private:
  const Binding& binding() const { return executions_.front()->binding(); }
  const program::RankClass& rank_class() const { return binding().rank_class(); }

  std::unique_ptr<Arena> take_arena() const {
    Bytes most;
    for (const auto& program : programs_) most = std::max(most, class_of(program, rank_).arena);
    return gpu_ ? std::make_unique<Arena>(*gpu_, most) : std::make_unique<Arena>(most);
  }

  /// One pass at a time: all programs have the same.
  std::optional<gpu::PinnedBuffer> take_pinned() const {
    if (!gpu_) return {};
    Bytes most;
    for (const auto& program : programs_) most = std::max(most, program::host_layout(class_of(program, rank_)).size);
    return gpu_->make_pinned(most);
  }

  /// Until the device is done: programs share its memory, but each has a stream of its own.
  void rest(std::size_t number) const {
    if (gpu_) backends_[number]->stream()->wait(deadline_);
  }

  /// Where the host fills in a part's values.
  float* values_of(const program::Part& part) {
    std::byte* const here = binding().buffer(part.parameters);
    if (!mirror_) return reinterpret_cast<float*>(here);
    const auto size = rank_class().buffers[static_cast<std::size_t>(part.parameters)].size;
    return reinterpret_cast<float*>(mirror_->place(here, size, StateMirror::Direction::both));
  }

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
    if (task.operation == model::Operation::head_forward && pass.take_logits) {
      rest(number);
      pass.take_logits(logits_of(number, task));
    }
    const bool speaks = binding().rank_binding().tensor_index == 0;
    if (task.operation != model::Operation::head_loss || !pass.take_scores || !speaks) return;
    rest(number);
    scores_.resize(static_cast<std::size_t>(task.sequences) * static_cast<std::size_t>(programs_[number].plan.length));
    backends_[number]->score_targets(task, scores_);
    pass.take_scores(static_cast<int>(task.first_sequence), scores_);
  }

  LogitRows logits_of(std::size_t number, const compute::Task& task) const {
    const auto& program = programs_[number];
    const auto columns =
        model::share(program.plan.model.vocabulary, class_of(program, rank_).shape.tensor_parallel, binding().rank_binding().tensor_index);
    const auto of = [this, number, task, columns](std::int64_t row) {
      std::vector<float> logits(static_cast<std::size_t>(columns.count()));
      backends_[number]->read_logits(task, row, logits);
      return logits;
    };
    return {std::int64_t{task.sequences} * program.plan.length, columns, of};
  }

  const Rank rank_;
  const Seconds deadline_;
  const std::vector<program::Program> programs_;
  const std::optional<gpu::DeviceContext> gpu_;
  std::unique_ptr<Arena> arena_;
  const std::optional<gpu::PinnedBuffer> pinned_;  ///< where the rank computes on a GPU, as the mirror
  Connections connections_;
  std::vector<std::unique_ptr<compute::Backend>> backends_;  ///< by program
  CommThread comm_;
  std::vector<std::unique_ptr<ProgramExecution>> executions_;  ///< by program
  std::optional<StateMirror> mirror_;                          ///< until the parameters are adopted
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
