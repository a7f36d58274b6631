#include "executor.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/overloaded.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/gpu/ranges.hpp"
#include "flotilla/mpi/backoff.hpp"

namespace flotilla::train {

using program::Role;
namespace scalar = program::scalar;

namespace {

bool reduces_scalars(const program::Instruction& instruction) {
  const auto* collective = instruction.as<program::Collective>();
  return collective != nullptr && collective->kind == program::CollectiveKind::reduce_scalars;
}

}  // namespace

Executor::Executor(Binding& binding, compute::Backend& backend, CommThread& comm, DeviceQueues* device, Seconds deadline, bool poison,
                   bool record)
    : binding_{binding},
      backend_{backend},
      comm_{comm},
      device_{device},
      deadline_{deadline},
      progress_{binding.issued_instructions().size()},
      poison_{binding, backend, poison},
      loss_factor_{1.0f / (static_cast<float>(binding.program().plan.global_batch) * static_cast<float>(binding.program().plan.length))},
      record_{record} {
  const auto& c = binding.rank_class();
  const auto& owned = binding.rank_binding().owned;
  for (const auto& part : c.parts) {
    auto& decays = decays_.emplace_back();
    auto& mine = owned_.emplace_back();
    for (const auto& slot : part.slots) {
      decays.push_back(binding.program().tensors[static_cast<std::size_t>(slot.tensor)].decays ? 1 : 0);
      mine.push_back(slot.trained && std::find(owned.begin(), owned.end(), slot.tensor) != owned.end() ? 1 : 0);
    }
  }
  const auto& list = binding.issued_instructions();
  const auto sums = std::ranges::find_if(list, [](const auto& issued) { return reduces_scalars(*issued.instruction); });
  FLOTILLA_ASSERT(sums != list.end(), "a program that sums no scalars");
  sums_ = static_cast<std::size_t>(sums - list.begin());
  scalars_ = binding.on_host(sums->instruction->access(Role::scalars)->buffer);
  totals_ = binding.on_host(sums->instruction->access(Role::totals)->buffer);
  pieces_ = program::shard_pieces(binding.program(), binding.rank());
  for (const auto& part : c.parts) {
    auto& shares = row_ranges_.emplace_back();
    for (const auto& share : part.shards) shares.push_back(program::shard_ranges(binding.program(), binding.rank(), share));
  }
  piece_part_.slots.resize(1);
  before_start_ = [this](BoundInstruction& issued) {
    if (!reduces_scalars(*issued.instruction)) return drained(issued);
    fill_totals(*context_);
    return false;
  };
  if (record) {
    started_.resize(binding.issued_instructions().size());
    ended_.resize(binding.issued_instructions().size());
    timeline_.resize(binding.issued_instructions().size());
  }
}

void Executor::run(const StepContext& context) {
  const gpu::NamedRange step{gpu::profiled() ? text("step ", context.step).c_str() : ""};
  context_ = &context;
  pass_ = Pass::whole;
  progress_.begin_pass();
  if (device_ != nullptr) device_->begin_pass();
  const Seconds origin = now();
  comm_.begin(binding_, device_, progress_, finished_, before_start_, record_ ? &started_ : nullptr, record_ ? &ended_ : nullptr, origin);
  auto& list = binding_.issued_instructions();
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (on_comm_thread(*list[i].instruction)) continue;
    wait_for(list[i]);
    if (device_ != nullptr) device_->before(static_cast<int>(i));
    if (record_) started_[i] = now() - origin;
    if (!leaves_out(list[i], context)) execute(list[i], context);
    poison_.after(i);
    if (record_) ended_[i] = now() - origin;
    if (device_ != nullptr) device_->after(static_cast<int>(i));
    progress_.mark(static_cast<int>(i));
    if (list[i].awaited_by_other_thread) comm_.wake();
  }
  comm_.finish();
  if (device_ != nullptr) device_->end_pass();
}

void Executor::wait_for(const BoundInstruction& issued) {
  for (;;) {
    const auto heard = finished_.listen();
    if (comm_.failed()) comm_.rethrow();
    if (std::all_of(issued.waits.begin(), issued.waits.end(), [&](int wait) { return progress_.done(wait); })) return;
    finished_.wait(heard);
  }
}

/// What comes after the sums is gone through as ever: by them all ranks know alike that the parameters stay, and what is done with
/// parameters then is done with good ones.
bool Executor::drained(const BoundInstruction& issued) const {
  const auto place = static_cast<std::size_t>(&issued - binding_.issued_instructions().data());
  return place < sums_ && pass_.load() == Pass::drained;
}

bool Executor::leaves_out(const BoundInstruction& issued, const StepContext& context) {
  auto whole = Pass::whole;
  if (context.give_up && pass_.load(std::memory_order_relaxed) == Pass::whole && context.give_up())
    pass_.compare_exchange_strong(whole, Pass::drained);
  return drained(issued);
}

void Executor::execute(BoundInstruction& issued, const StepContext& context) {
  const gpu::NamedRange instruction{issued.instruction->name.c_str()};
  std::visit(Overloaded{
                 [&](const program::LayerOperation&) {
                   issued.task.step = context.step;
                   issued.task.loss_scale = loss_factor_ * static_cast<float>(context.loss_scale);
                   issued.task.cached = context.cached;
                   issued.task.sources = sources_of(issued.task, context);
                   backend_.run(issued.task);
                   if (context.after_layer) context.after_layer(issued.task);
                 },
                 [&](const program::TokenLoad&) { load(issued, Role::tokens, binding_.program().plan.length + 1, context.read_sequence); },
                 [&](const program::DocumentLoad&) {
                   load(issued, Role::document_starts, binding_.program().plan.length, context.read_documents);
                 },
                 [&](const program::ZeroFill&) { zero(issued); },
                 [&](const program::RegionCopy& copy) { copy_regions(issued.task, copy); },
                 [&](const program::ShardExtraction& extraction) { extract_shard(issued.task, extraction); },
                 [&](const program::SquaredNorm& norm) { add_squared_norm(issued.task, norm); },
                 [&](const program::OptimizerUpdate& update) { optimize(issued.task, update, context); },
                 [&](const auto&) { FLOTILLA_ASSERT(false, issued.instruction->name, " is not for the compute thread"); },
             },
             issued.instruction->work);
}

std::span<const int> Executor::sources_of(const compute::Task& task, const StepContext& context) {
  if (task.operation != model::Operation::head_loss || !context.source_of) return {};
  sources_.resize(static_cast<std::size_t>(task.sequences));
  for (int s = 0; s < task.sequences; ++s)
    sources_[static_cast<std::size_t>(s)] = context.source_of(static_cast<int>(task.first_sequence) + s);
  return sources_;
}

/// Where the device waits for a lost peer, the communication thread is first to say so.
std::byte* Executor::await_input(int issued) {
  const Seconds limit = 2.0 * deadline_, end = now() + limit;
  for (mpi::Backoff backoff; !device_->input_taken(issued); backoff.pause()) {
    if (comm_.failed()) comm_.rethrow();
    FLOTILLA_REQUIRE(now() < end, ErrorKind::unavailable, "the GPU has not moved for ", limit, ": it hangs; see nvidia-smi and dmesg");
  }
  return device_->input(issued);
}

/// `values` of each sequence of the microbatch.
void Executor::load(BoundInstruction& issued, Role role, int values, const std::function<void(int, std::span<std::int32_t>)>& read) {
  const std::size_t row = static_cast<std::size_t>(values);
  const int index = static_cast<int>(&issued - binding_.issued_instructions().data());
  auto* to = device_ == nullptr ? issued.task.operand<std::int32_t>(role) : reinterpret_cast<std::int32_t*>(await_input(index));
  for (int s = 0; s < issued.sequences; ++s)
    read(static_cast<int>(issued.task.first_sequence) + s, {to + static_cast<std::size_t>(s) * row, row});
  if (device_ != nullptr) device_->upload_input(index);
}

void Executor::zero(BoundInstruction& issued) {
  for (const auto& access : issued.instruction->accesses) {
    const auto& buffer = binding_.rank_class().buffers[static_cast<std::size_t>(access.buffer)];
    backend_.fill({binding_.buffer(access.buffer), static_cast<std::size_t>(buffer.size.count)}, 0);
  }
}

/// Gradients, or refreshed weights.
void Executor::copy_regions(const compute::Task& task, const program::RegionCopy& copy) {
  auto* part = task.operand<std::byte>(Role::gradients);
  std::int64_t width = sizeof(float);
  if (part == nullptr) {
    part = task.operand<std::byte>(Role::weights);
    width = element_size(binding_.program().plan.precision).count;
  }
  auto* packed = task.operand<std::byte>(Role::packed);
  const bool packs = copy.direction == program::RegionCopy::Direction::pack;
  for (const auto& region : copy.regions) {
    std::byte* here = part + region.offset * width;
    const std::int64_t row = region.inner * width, pitch = region.stride * width;
    if (packs)
      backend_.copy(packed, here, {.rows = region.outer, .width = row, .from_pitch = pitch, .to_pitch = row});
    else
      backend_.copy(here, packed, {.rows = region.outer, .width = row, .from_pitch = row, .to_pitch = pitch});
    packed += region.outer * row;
  }
}

void Executor::extract_shard(const compute::Task& task, const program::ShardExtraction& extraction) {
  const auto* packed = task.operand<float>(Role::packed);
  auto* shard = task.operand<float>(Role::gradients);
  for (const auto& row_range : row_ranges_[static_cast<std::size_t>(extraction.part)][static_cast<std::size_t>(extraction.shard)])
    backend_.copy(reinterpret_cast<std::byte*>(shard + row_range.kept), reinterpret_cast<const std::byte*>(packed + row_range.summed),
                  {.width = row_range.count * std::int64_t{sizeof(float)}});
}

void Executor::add_squared_norm_of_shard(const compute::Task& task, const program::SquaredNorm& norm) {
  const bool packed = part(norm.part).shards[static_cast<std::size_t>(norm.shard)].packed();
  const auto* gradients = task.operand<float>(Role::gradients);
  for (const auto& piece : pieces_)
    if (piece.part == norm.part && piece.shard == norm.shard && piece.owned)
      backend_.add_squared_norm({gradients + (packed ? piece.kept : piece.summed), static_cast<std::size_t>(piece.count)},
                                task.operand<double>(Role::scalars) + scalar::squared_norm);
}

void Executor::add_squared_norm(const compute::Task& task, const program::SquaredNorm& norm) {
  if (norm.shard >= 0) return add_squared_norm_of_shard(task, norm);
  const auto& owned = owned_[static_cast<std::size_t>(norm.part)];
  const auto* gradients = task.operand<float>(Role::gradients);
  const auto& slots = part(norm.part).slots;
  for (std::size_t s = 0; s < slots.size(); ++s)
    if (owned[s] != 0)
      backend_.add_squared_norm({gradients + slots[s].offset, static_cast<std::size_t>(slots[s].elements)},
                                task.operand<double>(Role::scalars) + scalar::squared_norm);
}

/// The losses of its sequences, by source and together, and what they are.
void Executor::fill_data_totals(const StepContext& context, const double* scalars, double* totals) const {
  totals[scalar::loss] = scalars[scalar::loss];
  totals[scalar::counted] = scalars[scalar::counted];
  for (int s = 0; s < binding_.program().sources; ++s) {
    totals[scalar::loss] += totals[scalar::source_loss(s)] = scalars[scalar::source_loss(s)];
    totals[scalar::counted] += totals[scalar::source_counted(s)] = scalars[scalar::source_counted(s)];
  }
  if (context.digest == nullptr) return;
  totals[scalar::digest] = static_cast<double>(*context.digest & 0xffffffffu);  // sums of halves are exact
  totals[scalar::digest + 1] = static_cast<double>(*context.digest >> 32);
}

// Every rank of a tensor-parallel group has the whole loss of its sequences; the first speaks for all.
void Executor::fill_totals(const StepContext& context) {
  const auto* scalars = reinterpret_cast<const double*>(scalars_);
  auto* totals = reinterpret_cast<double*>(totals_);
  std::fill_n(totals, scalar::number(binding_.program().sources), 0.0);
  fill_data_totals(context, scalars, totals);
  const double loss = totals[scalar::loss];
  if (binding_.rank_binding().tensor_index != 0) std::fill_n(totals, scalar::number(binding_.program().sources), 0.0);
  totals[scalar::squared_norm] = scalars[scalar::squared_norm];
  totals[scalar::stop] = context.step_requests.stop ? 1 : 0;
  totals[scalar::save] = context.step_requests.save ? 1 : 0;
  totals[scalar::change] = context.step_requests.change ? 1 : 0;
  auto whole = Pass::whole;
  if (!pass_.compare_exchange_strong(whole, Pass::summed)) {
    totals[scalar::given_up] = 1;
    totals[scalar::loss] = totals[scalar::squared_norm] = 0;
    return;
  }
  if (!std::isfinite(loss) || !std::isfinite(scalars[scalar::squared_norm])) {
    totals[scalar::not_finite] = 1;
    totals[scalar::not_finite_rank] = static_cast<double>(binding_.rank().value);
  }
}

/// Losses are summed as if every token counted, since how many do is known only from the step's sums. Where all do, this is a power of two.
double Executor::gradient_factor() const {
  const auto& plan = binding_.program().plan;
  const double tokens = static_cast<double>(plan.global_batch) * plan.length;
  return tokens / std::max(1.0, totals()[scalar::counted]) / static_cast<double>(context_->loss_scale);
}

/// Else the last good parameters stay. Of the mean over no token there is no gradient, and decay alone is no training.
bool Executor::updates(double norm) const {
  return !(totals()[scalar::given_up] > 0) && totals()[scalar::counted] > 0 && std::isfinite(norm) && std::isfinite(totals()[scalar::loss]);
}

void Executor::optimize(const compute::Task& task, const program::OptimizerUpdate& update, const StepContext& context) {
  const double whole = gradient_factor(), norm = std::sqrt(totals()[scalar::squared_norm]) * whole;
  if (!updates(norm)) return keep_shard(task, update);
  if (context.before_update) context.before_update();
  auto adamw = context.adamw;
  const float clipping = context.clip > 0 && norm > context.clip ? static_cast<float>(context.clip / norm) : 1.0f;
  adamw.gradient_factor = clipping * static_cast<float>(whole);
  if (update.shard >= 0) return optimize_shard(task, update, adamw);
  auto* parameters = task.operand<float>(Role::parameters);
  auto* weights = task.operand<std::byte>(Role::weights);
  backend_.adamw(adamw, part(update.part), decays_[static_cast<std::size_t>(update.part)], parameters,
                 weights == nullptr ? reinterpret_cast<std::byte*>(parameters) : weights, task.operand<float>(Role::gradients),
                 task.operand<float>(Role::moment1), task.operand<float>(Role::moment2));
}

/// Weights that are gathered packed go there as they are.
void Executor::keep_shard(const compute::Task& task, const program::OptimizerUpdate& update) {
  if (update.shard < 0 || !part(update.part).shards[static_cast<std::size_t>(update.shard)].packed()) return;
  const std::int64_t width = element_size(binding_.program().plan.precision).count;
  const auto* parameters = task.operand<float>(Role::parameters);
  auto* weights = task.operand<std::byte>(Role::weights);
  for (const auto& piece : pieces_)
    if (piece.part == update.part && piece.shard == update.shard)
      backend_.convert({parameters + piece.kept, static_cast<std::size_t>(piece.count)}, weights + piece.summed * width);
}

/// Piece by piece: tensors differ in whether they decay, and the shard's buffers are laid out otherwise than the part's.
void Executor::optimize_shard(const compute::Task& task, const program::OptimizerUpdate& update, const compute::AdamW& adamw) {
  const auto& whole = part(update.part);
  const auto& shard = whole.shards[static_cast<std::size_t>(update.shard)];
  const std::int64_t width = element_size(binding_.program().plan.precision).count;
  const bool in_place = shard.parameters == whole.parameters;
  auto* parameters = task.operand<float>(Role::parameters);
  auto* weights = task.operand<std::byte>(Role::weights);
  auto* gradients = task.operand<float>(Role::gradients);
  auto *moment1 = task.operand<float>(Role::moment1), *moment2 = task.operand<float>(Role::moment2);
  for (const auto& piece : pieces_) {
    if (piece.part != update.part || piece.shard != update.shard) continue;
    piece_part_.slots.front() = {piece.tensor, 0, piece.count};
    float* values = parameters + (in_place ? piece.summed : piece.kept);
    std::byte* copy = weights == nullptr ? reinterpret_cast<std::byte*>(values) : weights + piece.summed * width;
    backend_.adamw(adamw, piece_part_, {&decays_[static_cast<std::size_t>(update.part)][static_cast<std::size_t>(piece.slot)], 1}, values,
                   copy, gradients + (shard.packed() ? piece.kept : piece.summed), moment1 + piece.kept, moment2 + piece.kept);
  }
}

const std::vector<InstructionSpan>& Executor::timeline() {
  if (record_) collect_timeline();
  return timeline_;
}

void Executor::collect_timeline() {
  const auto& list = binding_.issued_instructions();
  if (device_ != nullptr) {
    device_->wait(deadline_);
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (on_comm_thread(*list[i].instruction) && !list[i].launched) continue;
      const auto span = device_->span(static_cast<int>(i));
      started_[i] = span.start;
      ended_[i] = span.end;
    }
  }
  for (std::size_t i = 0; i < list.size(); ++i)
    timeline_[i] = {static_cast<int>(list[i].instruction - binding_.rank_class().instructions.data()), list[i].microbatch, started_[i],
                    ended_[i]};
}

}  // namespace flotilla::train
