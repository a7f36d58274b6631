#include "flotilla/train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "flotilla/base/error.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/program/host_memory.hpp"
#include "flotilla/program/optimizer_shards.hpp"
#include "initialize.hpp"
#include "program_execution.hpp"
#include "state_mirror.hpp"

namespace flotilla::train {

namespace scalar = program::scalar;

class Trainer::State {
 public:
  State(const comm::World& active, program::Program training, std::optional<program::Program> evaluation, data::Sampler training_data,
        std::optional<data::Sampler> validation_data, const Options& options)
      : active_{active},
        options_{options},
        training_{std::move(training)},
        evaluation_{std::move(evaluation)},
        training_data_{std::move(training_data)},
        validation_data_{std::move(validation_data)},
        digests_(static_cast<std::size_t>(training_.plan.global_batch)),
        gpu_{comm::agree_on(
            active, "opening the devices", [&] { return open_gpu(options.device); }, options.deadline)},
        arena_{comm::agree_on(
            active, "taking the arena", [&] { return take_arena(); }, options.deadline)},
        pinned_{comm::agree_on(
            active, "taking pinned memory", [&] { return take_pinned(); }, options.deadline)},
        connections_{active, training_, evaluation_ ? &*evaluation_ : nullptr, gpu_ ? &*gpu_ : nullptr, options},
        backend_{compute::make_backend(setup_of(training_, active.rank(), options))},
        comm_{active, options.deadline},
        execution_{training_, active, pinned_, gpu_, *arena_, connections_, *backend_, comm_, 0, options},
        binding_{execution_.binding()} {
    set_scratch(*backend_, binding_);
    prepare(*backend_, binding_);
    if (evaluation_) {
      Options evaluating = options;
      evaluating.record = false;
      evaluating.change_launches = {};
      evaluation_execution_.emplace(*evaluation_, active, pinned_, gpu_, *arena_, connections_, *backend_, comm_,
                                    channels_per_chunk * training_.plan.chunks, evaluating);
    }
    if (gpu_) mirror_.emplace(*gpu_, *backend_->stream(), options.deadline);
    context_.read_sequence = [this](int index, std::span<std::int32_t> tokens) {
      training_data_.read(training_data_.locate(step_, index), tokens);
      digests_[static_cast<std::size_t>(index)] = data::digest_of(index, tokens);
    };
    context_.after_layer = [this](const compute::Task& task) {
      if (task.operation == model::Operation::head_loss) count_in(task.first_sequence, task.sequences);
    };
    context_.digest = &digest_;
    if (training_.sources > 0) context_.source_of = [this](int index) { return training_data_.locate(step_, index).source; };
    evaluation_context_.read_sequence = [this](int index, std::span<std::int32_t> tokens) {
      validation_data_->read(validation_data_->locate_evaluation(index, evaluated_source_, training_.plan.length), tokens);
    };
    context_.read_documents = [this](int index, std::span<std::int32_t> starts) {
      training_data_.document_starts(training_data_.locate(step_, index), starts);
    };
    evaluation_context_.read_documents = [this](int index, std::span<std::int32_t> starts) {
      validation_data_->document_starts(validation_data_->locate_evaluation(index, evaluated_source_, training_.plan.length), starts);
    };
    collect_shards();
  }

  ~State() { comm_.stop(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void initialize() {
    for (const auto& held : held_) {
      const auto& tensor = training_.tensors[static_cast<std::size_t>(held.tensor)];
      train::initialize(training_.plan.model, tensor, held.boxes_in(tensor), options_.seed, held.parameters);
    }
    for (const auto& part : binding_.rank_class().parts) {
      zero(part.moment1);
      zero(part.moment2);
      for (const auto& share : part.shards) {
        zero(share.moment1);
        zero(share.moment2);
      }
    }
    adopt(0, std::nullopt);
  }

  void adopt(std::int64_t optimizer_steps, const std::optional<LossScale>& loss_scale) {
    optimizer_steps_ = optimizer_steps;
    if (scales_loss()) loss_scale_ = loss_scale.value_or(LossScale{options_.loss_scale});
    if (mirror_) mirror_->upload();
    for (const auto& part : binding_.rank_class().parts)
      if (part.weights != part.parameters) refresh_weights(part);
  }

  checkpoint::LocalState local_state() {
    if (mirror_) mirror_->download();
    return {&training_.tensors, held_};
  }
  std::int64_t optimizer_steps() const { return optimizer_steps_; }
  std::optional<LossScale> loss_scale() const { return loss_scale_; }

  StepResult step(std::int64_t step, const StepRequests& step_requests) {
    step_ = step;
    const double rate = learning_rate(std::prev(options_.learning_rates.upper_bound(step))->second, step);
    context_.step = step;
    context_.step_requests = step_requests;
    context_.clip = options_.clip;
    context_.loss_scale = loss_scale_ ? loss_scale_->value : 1;
    context_.adamw = {static_cast<float>(rate),
                      static_cast<float>(options_.beta1),
                      static_cast<float>(options_.beta2),
                      static_cast<float>(options_.epsilon),
                      static_cast<float>(options_.weight_decay),
                      1.0f,
                      optimizer_steps_ + 1};
    gradients_are_here_ = false;
    digest_ = 0;
    run(execution_, context_);
    return result(execution_.executor(), rate);
  }

  void give_up_when(std::function<bool(std::int64_t step)> transfer_sources) {
    give_up_ = std::move(transfer_sources);
    context_.give_up = [this] { return give_up_(step_); };
  }

  void before_updates(std::function<void()> prepare) { context_.before_update = std::move(prepare); }

  LossSum evaluate(int source) {
    evaluated_source_ = source;
    rest();
    run(*evaluation_execution_, evaluation_context_);
    rest();
    const double* totals = evaluation_execution_->executor().totals();
    return {totals[scalar::loss], static_cast<std::int64_t>(totals[scalar::counted])};
  }

  std::span<const float> gradient(int tensor) {
    for (const auto& part : binding_.rank_class().parts)
      for (const auto& slot : part.slots)
        if (slot.tensor == tensor && slot.trained)
          return {gradients_in(part.gradients) + slot.offset, static_cast<std::size_t>(slot.elements)};
    return {};
  }

  std::vector<OwnedGradient> owned_gradients() {
    std::vector<OwnedGradient> owned;
    const auto pieces = program::shard_pieces(training_, active_.rank());
    for (const auto& held : held_) {
      if (!held.owner || !held.trained) continue;
      const auto boxes = held.boxes_in(training_.tensors[static_cast<std::size_t>(held.tensor)]);
      if (held.piece < 0) {
        owned.push_back({held.tensor, boxes, gradient(held.tensor)});
        continue;
      }
      const auto& piece = pieces[static_cast<std::size_t>(held.piece)];
      const auto& share = binding_.rank_class().parts[static_cast<std::size_t>(piece.part)].shards[static_cast<std::size_t>(piece.shard)];
      const float* gradients = gradients_in(share.gradients);
      owned.push_back(
          {held.tensor, boxes, {gradients + (share.packed() ? piece.kept : piece.summed), static_cast<std::size_t>(piece.count)}});
    }
    return owned;
  }

  const plan::Shard* shard(int tensor) const {
    const auto held = std::find_if(held_.begin(), held_.end(), [&](const auto& h) { return h.tensor == tensor && h.piece < 0; });
    return held == held_.end() ? nullptr : &held->shard;
  }

  Bytes arena() const { return arena_->size(); }
  program::HostMemory host_memory() const {
    if (!gpu_) return {};
    const Bytes places{static_cast<std::int64_t>(pinned_->bytes().size())};
    return {places + program::mirror_pieces * program::mirror_piece, mirror_->size()};
  }
  const program::Program& program() const { return training_; }
  std::span<const InstructionSpan> timeline() { return execution_.executor().timeline(); }
  std::string description() const { return backend_->description() + connections_.description(); }

 private:
  /// Until the device is done with the pinned memory, which steps and evaluations share.
  void rest() {
    if (gpu_) backend_->stream()->wait(options_.deadline);
  }

  /// Where a pass fails, what GPUs still exchange is given up before anything waits for it.
  void run(ProgramExecution& execution, const StepContext& context) {
    try {
      execution.executor().run(context);
    } catch (...) {
      connections_.give_up();
      throw;
    }
  }

  Bytes needed() const {
    const Bytes training = class_of(training_, active_.rank()).arena;
    return evaluation_ ? std::max(training, class_of(*evaluation_, active_.rank()).arena) : training;
  }

  std::unique_ptr<Arena> take_arena() const { return gpu_ ? std::make_unique<Arena>(*gpu_, needed()) : std::make_unique<Arena>(needed()); }

  std::optional<gpu::PinnedBuffer> take_pinned() const {
    if (!gpu_) return {};
    const Bytes training = program::host_layout(class_of(training_, active_.rank())).size;
    const Bytes evaluation = evaluation_ ? program::host_layout(class_of(*evaluation_, active_.rank())).size : Bytes{};
    return gpu_->make_pinned(std::max(training, evaluation));
  }

  Bytes size_of(int buffer) const { return binding_.rank_class().buffers[static_cast<std::size_t>(buffer)].size; }

  void zero(int buffer) {
    if (buffer >= 0) std::memset(state_in(buffer), 0, static_cast<std::size_t>(size_of(buffer).count));
  }

  /// Where the host reads and writes what a buffer holds between steps.
  std::byte* state_in(int buffer, StateMirror::Direction direction = StateMirror::Direction::both) {
    std::byte* const here = binding_.buffer(buffer);
    return mirror_ ? mirror_->place(here, size_of(buffer), direction) : here;
  }

  const float* gradients_in(int buffer) {
    if (gpu_ && !gradients_are_here_) mirror_gradients();
    const std::byte* here = gpu_ ? mirror_of_gradients(buffer) : binding_.buffer(buffer);
    return reinterpret_cast<const float*>(here);
  }
  std::byte* mirror_of_gradients(int buffer) {
    return gradient_mirror_->place(binding_.buffer(buffer), size_of(buffer), StateMirror::Direction::to_host);
  }
  void mirror_gradients() {
    if (!gradient_mirror_) gradient_mirror_.emplace(*gpu_, *backend_->stream(), options_.deadline);
    for (const auto& part : binding_.rank_class().parts) {
      if (part.gradients >= 0) mirror_of_gradients(part.gradients);
      for (const auto& share : part.shards) mirror_of_gradients(share.gradients);
    }
    gradient_mirror_->download();
    gradients_are_here_ = true;
  }

  /// Where the whole part's fp32 values are when the state is filled. Who keeps but a share of them has room where gradients are summed:
  /// no step is under way.
  static int whole_parameters(const program::Part& part) { return part.parameters >= 0 ? part.parameters : part.gradients; }

  /// The copies in half precision, of a part whose frozen parameters may stand apart.
  void refresh_weights(const program::Part& part) {
    const std::int64_t first = part.frozen_parameters < 0 ? part.elements : part.trained_elements();
    const auto convert = [&](int buffer, std::int64_t at, std::int64_t count) {
      backend_->convert({reinterpret_cast<const float*>(binding_.buffer(buffer)), static_cast<std::size_t>(count)},
                        binding_.buffer(part.weights) + at * element_size(training_.plan.precision).count);
    };
    convert(whole_parameters(part), 0, first);
    if (first < part.elements) convert(part.frozen_parameters, first, part.elements - first);
  }

  void collect_shards() {
    const auto& c = binding_.rank_class();
    const auto& binding = binding_.rank_binding();
    const auto floats = [&](int buffer, const program::Part::Slot& slot) {
      return std::span<float>{reinterpret_cast<float*>(state_in(buffer)) + slot.offset, static_cast<std::size_t>(slot.elements)};
    };
    for (const auto& part : c.parts)
      for (const auto& slot : part.slots) {
        checkpoint::LocalTensor local;
        local.tensor = slot.tensor;
        local.shard = plan::shard(training_.tensors[static_cast<std::size_t>(slot.tensor)], c.shape.tensor_parallel, binding.tensor_index);
        local.trained = slot.trained;
        const bool apart = !slot.trained && part.frozen_parameters >= 0;
        local.parameters = apart ? floats(part.frozen_parameters, {slot.tensor, slot.offset - part.trained_elements(), slot.elements})
                                 : floats(whole_parameters(part), slot);
        local.precision = training_.plan.precision;
        if (local.precision != Precision::fp32)
          local.weights = {reinterpret_cast<const std::uint16_t*>(state_in(part.weights, StateMirror::Direction::to_host)) + slot.offset,
                           static_cast<std::size_t>(slot.elements)};
        if (part.shards.empty() && slot.trained) {
          local.moment1 = floats(part.moment1, slot);
          local.moment2 = floats(part.moment2, slot);
        }
        if (part.shards.empty() || !slot.trained)
          local.owner = std::find(binding.owned.begin(), binding.owned.end(), slot.tensor) != binding.owned.end();
        held_.push_back(std::move(local));
      }
    collect_share_pieces();
  }

  void collect_share_pieces() {
    const auto& c = binding_.rank_class();
    const auto pieces = program::shard_pieces(training_, active_.rank());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto& piece = pieces[i];
      const auto& part = c.parts[static_cast<std::size_t>(piece.part)];
      const auto& share = part.shards[static_cast<std::size_t>(piece.shard)];
      const auto floats = [&](int buffer, std::int64_t first) {
        return std::span<float>{reinterpret_cast<float*>(state_in(buffer)) + first, static_cast<std::size_t>(piece.count)};
      };
      checkpoint::LocalTensor local;
      local.tensor = piece.tensor;
      local.piece = static_cast<int>(i);
      local.precision = training_.plan.precision;
      local.boxes = program::boxes_of(training_, active_.rank(), piece);
      local.parameters = floats(share.parameters, share.parameters == part.parameters ? piece.summed : piece.kept);
      local.moment1 = floats(share.moment1, piece.kept);
      local.moment2 = floats(share.moment2, piece.kept);
      local.owner = piece.owned;
      held_.push_back(std::move(local));
    }
  }

  /// Sequences whose losses this rank has summed.
  void count_in(std::int64_t first, int sequences) {
    for (int s = 0; s < sequences; ++s) digest_ += digests_[static_cast<std::size_t>(first + s)];
  }

  StepResult result(const Executor& executor, double rate) {
    const double* totals = executor.totals();
    StepResult result;
    result.given_up = totals[scalar::given_up] > 0;
    result.counted_tokens = static_cast<std::int64_t>(totals[scalar::counted]);
    result.loss = LossSum{totals[scalar::loss], result.counted_tokens}.mean();
    for (int s = 0; s < training_.sources; ++s)
      result.sources.push_back({totals[scalar::source_loss(s)], static_cast<std::int64_t>(totals[scalar::source_counted(s)])});
    result.digest = static_cast<std::uint64_t>(totals[scalar::digest]) + (static_cast<std::uint64_t>(totals[scalar::digest + 1]) << 32);
    result.loss_scale = context_.loss_scale;
    result.gradient_norm = std::sqrt(totals[scalar::squared_norm]) * executor.gradient_factor();
    result.learning_rate = rate;
    result.finite = std::isfinite(totals[scalar::loss]) && std::isfinite(result.gradient_norm);
    result.not_finite_ranks = static_cast<int>(totals[scalar::not_finite]);
    if (result.not_finite_ranks == 1) result.not_finite_rank = Rank{static_cast<int>(totals[scalar::not_finite_rank])};
    result.stop = totals[scalar::stop] > 0;
    result.save = totals[scalar::save] > 0;
    result.change = totals[scalar::change] > 0;
    if (!result.given_up) count_update(result);
    return result;
  }

  bool scales_loss() const { return training_.plan.precision == Precision::fp16; }

  /// A loss that is not finite is no matter of its scale.
  void count_update(StepResult& result) {
    result.overflowed = loss_scale_ && !result.finite && std::isfinite(result.loss) && result.loss_scale > smallest_loss_scale;
    if (result.updated()) ++optimizer_steps_;
    if (result.overflowed) loss_scale_ = after_overflow(*loss_scale_);
    if (loss_scale_ && result.updated()) loss_scale_ = after_update(*loss_scale_);
  }

  const comm::World& active_;
  const Options options_;
  const program::Program training_;
  const std::optional<program::Program> evaluation_;
  const data::Sampler training_data_;
  const std::optional<data::Sampler> validation_data_;
  std::vector<std::uint64_t> digests_;  ///< by sequence of the step, of those that this rank has read
  const std::optional<gpu::DeviceContext> gpu_;
  std::unique_ptr<Arena> arena_;
  const std::optional<gpu::PinnedBuffer> pinned_;  ///< where the rank computes on a GPU, as the mirrors
  Connections connections_;
  std::unique_ptr<compute::Backend> backend_;
  CommThread comm_;
  ProgramExecution execution_;
  const Binding& binding_;
  std::optional<ProgramExecution> evaluation_execution_;
  std::optional<StateMirror> mirror_, gradient_mirror_;  ///< where the rank computes on a GPU
  bool gradients_are_here_ = false;
  StepContext context_, evaluation_context_;
  std::function<bool(std::int64_t)> give_up_;
  std::vector<checkpoint::LocalTensor> held_;
  std::int64_t step_ = 0, optimizer_steps_ = 0;
  int evaluated_source_ = 0;
  std::uint64_t digest_ = 0;  ///< of those whose losses it has summed
  std::optional<LossScale> loss_scale_;
};

Trainer::Trainer(const comm::World& active, program::Program training, std::optional<program::Program> evaluation,
                 data::Sampler training_data, std::optional<data::Sampler> validation_data, const Options& options)
    : state_{std::make_unique<State>(active, std::move(training), std::move(evaluation), std::move(training_data),
                                     std::move(validation_data), options)} {}
Trainer::~Trainer() = default;

void Trainer::initialize() { state_->initialize(); }
void Trainer::adopt(std::int64_t optimizer_steps, const std::optional<LossScale>& loss_scale) {
  state_->adopt(optimizer_steps, loss_scale);
}
checkpoint::LocalState Trainer::state() { return state_->local_state(); }
std::int64_t Trainer::optimizer_steps() const { return state_->optimizer_steps(); }
std::optional<LossScale> Trainer::loss_scale() const { return state_->loss_scale(); }
StepResult Trainer::step(std::int64_t step, const StepRequests& step_requests) { return state_->step(step, step_requests); }
void Trainer::give_up_when(std::function<bool(std::int64_t step)> transfer_sources) { state_->give_up_when(std::move(transfer_sources)); }
void Trainer::before_updates(std::function<void()> prepare) { state_->before_updates(std::move(prepare)); }
LossSum Trainer::evaluate(int source) { return state_->evaluate(source); }
std::span<const float> Trainer::gradient(int tensor) const { return state_->gradient(tensor); }
std::vector<Trainer::OwnedGradient> Trainer::owned_gradients() const { return state_->owned_gradients(); }
const plan::Shard* Trainer::shard(int tensor) const { return state_->shard(tensor); }
Bytes Trainer::arena() const { return state_->arena(); }
program::HostMemory Trainer::host_memory() const { return state_->host_memory(); }
const program::Program& Trainer::program() const { return state_->program(); }
std::span<const InstructionSpan> Trainer::timeline() const { return state_->timeline(); }
std::string Trainer::description() const { return state_->description(); }

}  // namespace flotilla::train
