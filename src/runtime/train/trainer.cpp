#include "flotilla/train/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "arena.hpp"
#include "binding.hpp"
#include "comm_thread.hpp"
#include "executor.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/program/optimizer_shards.hpp"
#include "initialize.hpp"

namespace flotilla::train {

namespace scalar = program::scalar;

namespace {

constexpr int channels_per_chunk = 2;  // of a program's messages

compute::Setup setup_of(const program::Program& program, Rank rank, const Options& options) {
  const auto& binding = program.ranks.at(rank.index());
  const auto& c = program.classes.at(static_cast<std::size_t>(binding.rank_class));
  return {program.plan.model, program.plan.length, c.shape.tensor_parallel,  binding.tensor_index, program.plan.precision,
          options.threads,    options.seed,        c.shape.sequence_parallel};
}

Bytes arena_size(const program::Program& program, Rank rank) {
  return program.classes.at(static_cast<std::size_t>(program.ranks.at(rank.index()).rank_class)).arena;
}

}  // namespace

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
        arena_{comm::agree_on(
            active, "taking the arena", [&] { return std::make_unique<Arena>(needed()); }, options.deadline)},
        groups_{comm::form(active, training_.groups, options.deadline)},
        backend_{compute::make_cpu_backend(setup_of(training_, active.rank(), options))},
        comm_{active, options.deadline},
        training_binding_{training_, active.rank(), *arena_, active, groups_, 0},
        training_executor_{training_binding_, *backend_, comm_, options.poison, options.record} {
    if (training_binding_.rank_class().scratch >= 0) {
      const int scratch = training_binding_.rank_class().scratch;
      const Bytes size = training_binding_.rank_class().buffers[static_cast<std::size_t>(scratch)].size;
      backend_->set_scratch({training_binding_.buffer(scratch), static_cast<std::size_t>(size.count)});
    }
    if (evaluation_) {
      evaluation_binding_.emplace(*evaluation_, active.rank(), *arena_, active, groups_, channels_per_chunk * training_.plan.chunks);
      evaluation_executor_.emplace(*evaluation_binding_, *backend_, comm_, options.poison, false);
    }
    read_training_ = [this](int index, std::span<std::int32_t> tokens) {
      training_data_.read(training_data_.locate(step_, index), tokens);
    };
    read_validation_ = [this](int index, std::span<std::int32_t> tokens) {
      validation_data_->read(validation_data_->locate_evaluation(index), tokens);
    };
    collect_shards();
    context_.read_sequence = read_training_;
    evaluation_context_.read_sequence = read_validation_;
  }

  void initialize() {
    for (const auto& held : held_) {
      const auto& tensor = training_.tensors[static_cast<std::size_t>(held.tensor)];
      train::initialize(training_.plan.model, tensor, held.boxes_in(tensor), options_.seed, held.parameters);
    }
    for (const auto& part : training_binding_.rank_class().parts) {
      zero(part.moment1);
      zero(part.moment2);
      for (const auto& share : part.shards) {
        zero(share.moment1);
        zero(share.moment2);
      }
    }
    adopt(0);
  }

  void adopt(std::int64_t optimizer_steps) {
    optimizer_steps_ = optimizer_steps;
    for (const auto& part : training_binding_.rank_class().parts)
      if (part.weights != part.parameters)
        backend_->convert(
            {reinterpret_cast<const float*>(training_binding_.buffer(whole_parameters(part))), static_cast<std::size_t>(part.elements)},
            training_binding_.buffer(part.weights));
  }

  checkpoint::LocalState local_state() const { return {&training_.tensors, held_}; }
  std::int64_t optimizer_steps() const { return optimizer_steps_; }

  StepResult step(std::int64_t step, const StepRequests& step_requests) {
    step_ = step;
    const double rate = learning_rate(options_.learning_rate, step);
    context_.step = step;
    context_.step_requests = step_requests;
    context_.clip = options_.clip;
    context_.adamw = {static_cast<float>(rate),
                      static_cast<float>(options_.beta1),
                      static_cast<float>(options_.beta2),
                      static_cast<float>(options_.epsilon),
                      static_cast<float>(options_.weight_decay),
                      1.0f,
                      optimizer_steps_ + 1};
    training_executor_.run(context_);
    return result(training_executor_.totals(), rate);
  }

  void give_up_when(std::function<bool(std::int64_t step)> transfer_sources) {
    give_up_ = std::move(transfer_sources);
    context_.give_up = [this] { return give_up_(step_); };
  }

  double evaluate() {
    evaluation_executor_->run(evaluation_context_);
    int sequences = 0;  // all that the evaluation's replicas were dealt
    for (const auto& binding : evaluation_->ranks) {
      if (binding.rank_class < 0) continue;
      const auto& c = evaluation_->classes[static_cast<std::size_t>(binding.rank_class)];
      if (c.stage == 0 && binding.tensor_index == 0 && c.microbatches > 0)
        sequences += (c.microbatches - 1) * c.shape.sequences + c.last_sequences;
    }
    return evaluation_executor_->totals()[scalar::loss] / (static_cast<double>(sequences) * training_.plan.length);
  }

  std::span<const float> gradient(int tensor) const {
    for (const auto& part : training_binding_.rank_class().parts)
      for (const auto& slot : part.slots)
        if (slot.tensor == tensor)
          return {reinterpret_cast<const float*>(training_binding_.buffer(part.gradients)) + slot.offset,
                  static_cast<std::size_t>(slot.elements)};
    return {};
  }

  std::vector<OwnedGradient> owned_gradients() const {
    std::vector<OwnedGradient> owned;
    const auto pieces = program::shard_pieces(training_, active_.rank());
    for (const auto& held : held_) {
      if (!held.owner) continue;
      const auto boxes = held.boxes_in(training_.tensors[static_cast<std::size_t>(held.tensor)]);
      if (held.piece < 0) {
        owned.push_back({held.tensor, boxes, gradient(held.tensor)});
        continue;
      }
      const auto& piece = pieces[static_cast<std::size_t>(held.piece)];
      const auto& share =
          training_binding_.rank_class().parts[static_cast<std::size_t>(piece.part)].shards[static_cast<std::size_t>(piece.shard)];
      const auto* gradients = reinterpret_cast<const float*>(training_binding_.buffer(share.gradients));
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
  const program::Program& program() const { return training_; }
  std::span<const InstructionSpan> timeline() const { return training_executor_.timeline(); }
  std::string description() const { return backend_->description(); }

 private:
  Bytes needed() const {
    const Bytes training = arena_size(training_, active_.rank());
    return evaluation_ ? std::max(training, arena_size(*evaluation_, active_.rank())) : training;
  }

  void zero(int buffer) {
    if (buffer < 0) return;
    const Bytes size = training_binding_.rank_class().buffers[static_cast<std::size_t>(buffer)].size;
    backend_->zero({training_binding_.buffer(buffer), static_cast<std::size_t>(size.count)});
  }

  /// Where the whole part's fp32 values are when the state is filled. Who keeps but a share of them has room where gradients are summed:
  /// no step is under way.
  static int whole_parameters(const program::Part& part) { return part.parameters >= 0 ? part.parameters : part.gradients; }

  void collect_shards() {
    const auto& c = training_binding_.rank_class();
    const auto& binding = training_binding_.rank_binding();
    const auto floats = [&](int buffer, const program::Part::Slot& slot) {
      return std::span<float>{reinterpret_cast<float*>(training_binding_.buffer(buffer)) + slot.offset,
                              static_cast<std::size_t>(slot.elements)};
    };
    for (const auto& part : c.parts)
      for (const auto& slot : part.slots) {
        checkpoint::LocalTensor local;
        local.tensor = slot.tensor;
        local.shard = plan::shard(training_.tensors[static_cast<std::size_t>(slot.tensor)], c.shape.tensor_parallel, binding.tensor_index);
        local.parameters = floats(whole_parameters(part), slot);
        if (training_.plan.precision == Precision::bf16)
          local.weights = {reinterpret_cast<const std::uint16_t*>(training_binding_.buffer(part.weights)) + slot.offset,
                           static_cast<std::size_t>(slot.elements)};
        if (part.shards.empty()) {
          local.moment1 = floats(part.moment1, slot);
          local.moment2 = floats(part.moment2, slot);
          local.owner = std::find(binding.owned.begin(), binding.owned.end(), slot.tensor) != binding.owned.end();
        }
        held_.push_back(std::move(local));
      }
    collect_share_pieces();
  }

  void collect_share_pieces() {
    const auto& c = training_binding_.rank_class();
    const auto pieces = program::shard_pieces(training_, active_.rank());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto& piece = pieces[i];
      const auto& part = c.parts[static_cast<std::size_t>(piece.part)];
      const auto& share = part.shards[static_cast<std::size_t>(piece.shard)];
      const auto floats = [&](int buffer, std::int64_t first) {
        return std::span<float>{reinterpret_cast<float*>(training_binding_.buffer(buffer)) + first, static_cast<std::size_t>(piece.count)};
      };
      checkpoint::LocalTensor local;
      local.tensor = piece.tensor;
      local.piece = static_cast<int>(i);
      local.boxes = program::boxes_of(training_, active_.rank(), piece);
      local.parameters = floats(share.parameters, share.parameters == part.parameters ? piece.summed : piece.kept);
      local.moment1 = floats(share.moment1, piece.kept);
      local.moment2 = floats(share.moment2, piece.kept);
      local.owner = piece.owned;
      held_.push_back(std::move(local));
    }
  }

  StepResult result(const double* totals, double rate) {
    StepResult result;
    result.given_up = totals[scalar::given_up] > 0;
    result.loss = totals[scalar::loss] / (static_cast<double>(training_.plan.global_batch) * training_.plan.length);
    result.gradient_norm = std::sqrt(totals[scalar::squared_norm]);
    result.learning_rate = rate;
    result.finite = std::isfinite(result.loss) && std::isfinite(result.gradient_norm);
    result.not_finite_ranks = static_cast<int>(totals[scalar::not_finite]);
    if (result.not_finite_ranks == 1) result.not_finite_rank = Rank{static_cast<int>(totals[scalar::not_finite_rank])};
    result.stop = totals[scalar::stop] > 0;
    result.save = totals[scalar::save] > 0;
    result.change = totals[scalar::change] > 0;
    if (result.finite && !result.given_up) ++optimizer_steps_;
    return result;
  }

  const comm::World& active_;
  const Options options_;
  const program::Program training_;
  const std::optional<program::Program> evaluation_;
  const data::Sampler training_data_;
  const std::optional<data::Sampler> validation_data_;
  std::unique_ptr<Arena> arena_;
  comm::Groups groups_;
  std::unique_ptr<compute::Backend> backend_;
  CommThread comm_;
  Binding training_binding_;
  Executor training_executor_;
  std::optional<Binding> evaluation_binding_;
  std::optional<Executor> evaluation_executor_;
  StepContext context_, evaluation_context_;
  std::function<void(int, std::span<std::int32_t>)> read_training_, read_validation_;
  std::function<bool(std::int64_t)> give_up_;
  std::vector<checkpoint::LocalTensor> held_;
  std::int64_t step_ = 0, optimizer_steps_ = 0;
};

Trainer::Trainer(const comm::World& active, program::Program training, std::optional<program::Program> evaluation,
                 data::Sampler training_data, std::optional<data::Sampler> validation_data, const Options& options)
    : state_{std::make_unique<State>(active, std::move(training), std::move(evaluation), std::move(training_data),
                                     std::move(validation_data), options)} {}
Trainer::~Trainer() = default;

void Trainer::initialize() { state_->initialize(); }
void Trainer::adopt(std::int64_t optimizer_steps) { state_->adopt(optimizer_steps); }
checkpoint::LocalState Trainer::state() { return state_->local_state(); }
std::int64_t Trainer::optimizer_steps() const { return state_->optimizer_steps(); }
StepResult Trainer::step(std::int64_t step, const StepRequests& step_requests) { return state_->step(step, step_requests); }
void Trainer::give_up_when(std::function<bool(std::int64_t step)> transfer_sources) { state_->give_up_when(std::move(transfer_sources)); }
double Trainer::evaluate() { return state_->evaluate(); }
std::span<const float> Trainer::gradient(int tensor) const { return state_->gradient(tensor); }
std::vector<Trainer::OwnedGradient> Trainer::owned_gradients() const { return state_->owned_gradients(); }
const plan::Shard* Trainer::shard(int tensor) const { return state_->shard(tensor); }
Bytes Trainer::arena() const { return state_->arena(); }
const program::Program& Trainer::program() const { return state_->program(); }
std::span<const InstructionSpan> Trainer::timeline() const { return state_->timeline(); }
std::string Trainer::description() const { return state_->description(); }

}  // namespace flotilla::train
