#include "executor.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::train {

using program::Op;
using program::Role;
namespace scalar = program::scalar;

Executor::Executor(Binding& binding, compute::Backend& backend, CommThread& comm, bool poison, bool record)
    : binding_{binding},
      backend_{backend},
      comm_{comm},
      progress_{binding.issued_instructions().size()},
      poison_{binding, poison},
      record_{record} {
  const auto& c = binding.rank_class();
  for (std::size_t b = 0; b < c.buffers.size(); ++b) {
    if (c.buffers[b].name == "scalars") scalars_ = binding.buffer(static_cast<int>(b));
    if (c.buffers[b].name == "totals") totals_ = binding.buffer(static_cast<int>(b));
  }
  const auto& owned = binding.rank_binding().owned;
  for (const auto& part : c.parts) {
    auto& decays = decays_.emplace_back();
    auto& mine = owned_.emplace_back();
    for (const auto& slot : part.slots) {
      decays.push_back(binding.program().tensors[static_cast<std::size_t>(slot.tensor)].decays ? 1 : 0);
      mine.push_back(std::find(owned.begin(), owned.end(), slot.tensor) != owned.end() ? 1 : 0);
    }
  }
  const auto& list = binding.issued_instructions();
  sums_ = static_cast<std::size_t>(
      std::ranges::find_if(list, [](const auto& issued) { return issued.instruction->op == Op::reduce_scalars; }) - list.begin());
  pieces_ = program::shard_pieces(binding.program(), binding.rank());
  for (const auto& part : c.parts) {
    auto& shares = row_ranges_.emplace_back();
    for (const auto& share : part.shares) shares.push_back(program::shard_ranges(binding.program(), binding.rank(), share));
  }
  piece_part_.slots.resize(1);
  before_start_ = [this](BoundInstruction& issued) {
    if (issued.instruction->op != Op::reduce_scalars) return drained(issued);
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
  context_ = &context;
  pass_ = Pass::whole;
  progress_.begin_pass();
  const Seconds origin = now();
  comm_.begin(binding_, progress_, finished_, before_start_, record_ ? &started_ : nullptr, record_ ? &ended_ : nullptr, origin);
  auto& list = binding_.issued_instructions();
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (on_comm_thread(*list[i].instruction)) continue;
    wait_for(list[i]);
    if (record_) started_[i] = now() - origin;
    if (!leaves_out(list[i], context)) execute(list[i], context);
    poison_.after(i);
    if (record_) ended_[i] = now() - origin;
    progress_.mark(static_cast<int>(i));
    if (list[i].awaited_by_other_thread) comm_.wake();
  }
  comm_.finish();
  if (record_) collect_timeline();
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
  switch (issued.instruction->op) {
    case Op::load_tokens: return load_tokens(issued, context);
    case Op::zero: return zero(issued);
    case Op::squared_norm: return squared_norm(issued);
    case Op::optimizer: return optimize(issued, context);
    case Op::pack:
    case Op::unpack: return copy_regions(issued);
    case Op::extract_shard: return extract_shard(issued);
    case Op::compute: issued.task.step = context.step; return backend_.run(issued.task);
    default: FLOTILLA_ASSERT(false, issued.instruction->name, " is not for the compute thread");
  }
}

void Executor::load_tokens(BoundInstruction& issued, const StepContext& context) {
  const std::size_t row = static_cast<std::size_t>(binding_.program().plan.length) + 1;
  auto* tokens = issued.task.operand<std::int32_t>(Role::tokens);
  for (int s = 0; s < issued.sequences; ++s)
    context.read_sequence(static_cast<int>(issued.task.first_sequence) + s, {tokens + static_cast<std::size_t>(s) * row, row});
}

void Executor::zero(BoundInstruction& issued) {
  for (const auto& access : issued.instruction->accesses) {
    const auto& buffer = binding_.rank_class().buffers[static_cast<std::size_t>(access.buffer)];
    backend_.zero({binding_.buffer(access.buffer), static_cast<std::size_t>(buffer.size.count)});
  }
}

/// Gradients, or refreshed weights.
void Executor::copy_regions(BoundInstruction& issued) {
  auto* part = issued.task.operand<std::byte>(Role::gradients);
  std::int64_t width = sizeof(float);
  if (part == nullptr) {
    part = issued.task.operand<std::byte>(Role::weights);
    width = element_size(binding_.program().plan.precision).count;
  }
  auto* packed = issued.task.operand<std::byte>(Role::packed);
  const bool packs = issued.instruction->op == Op::pack;
  for (const auto& region : issued.instruction->regions)
    for (std::int64_t row = 0; row < region.outer; ++row, packed += region.inner * width) {
      std::byte* here = part + (region.offset + row * region.stride) * width;
      std::copy_n(packs ? here : packed, region.inner * width, packs ? packed : here);
    }
}

void Executor::extract_shard(BoundInstruction& issued) {
  const auto& instruction = *issued.instruction;
  const auto* packed = issued.task.operand<float>(Role::packed);
  auto* share = issued.task.operand<float>(Role::gradients);
  for (const auto& row_range : row_ranges_[static_cast<std::size_t>(instruction.part)][static_cast<std::size_t>(instruction.share)])
    std::copy_n(packed + row_range.summed, row_range.count, share + row_range.kept);
}

double Executor::squared_norm_of_share(const BoundInstruction& issued) {
  const auto& instruction = *issued.instruction;
  const auto& share =
      binding_.rank_class().parts[static_cast<std::size_t>(instruction.part)].shares[static_cast<std::size_t>(instruction.share)];
  const auto* gradients = issued.task.operand<float>(Role::gradients);
  double sum = 0;
  for (const auto& piece : pieces_)
    if (piece.part == instruction.part && piece.share == instruction.share && piece.owned)
      sum += backend_.squared_norm({gradients + (share.packed() ? piece.kept : piece.summed), static_cast<std::size_t>(piece.count)});
  return sum;
}

void Executor::squared_norm(BoundInstruction& issued) {
  if (issued.instruction->share >= 0) {
    reinterpret_cast<double*>(scalars_)[scalar::squared_norm] += squared_norm_of_share(issued);
    return;
  }
  const auto part = static_cast<std::size_t>(issued.instruction->part);
  const auto* gradients = issued.task.operand<float>(Role::gradients);
  double sum = 0;
  const auto& slots = binding_.rank_class().parts[part].slots;
  for (std::size_t s = 0; s < slots.size(); ++s)
    if (owned_[part][s] != 0) sum += backend_.squared_norm({gradients + slots[s].offset, static_cast<std::size_t>(slots[s].elements)});
  reinterpret_cast<double*>(scalars_)[scalar::squared_norm] += sum;
}

// Every rank of a tensor-parallel group has the whole loss of its sequences; the first speaks for all.
void Executor::fill_totals(const StepContext& context) {
  const auto* scalars = reinterpret_cast<const double*>(scalars_);
  auto* totals = reinterpret_cast<double*>(totals_);
  std::fill_n(totals, scalar::count, 0.0);
  if (binding_.rank_binding().tensor_index == 0) totals[scalar::loss] = scalars[scalar::loss];
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
  if (!std::isfinite(scalars[scalar::loss]) || !std::isfinite(scalars[scalar::squared_norm])) {
    totals[scalar::not_finite] = 1;
    totals[scalar::not_finite_rank] = static_cast<double>(binding_.rank().value);
  }
}

void Executor::optimize(BoundInstruction& issued, const StepContext& context) {
  const double norm = std::sqrt(totals()[scalar::squared_norm]);
  const bool bad = totals()[scalar::given_up] > 0 || !std::isfinite(norm) || !std::isfinite(totals()[scalar::loss]);
  if (bad) return keep_share(issued);  // the last good parameters stay
  auto adamw = context.adamw;
  adamw.gradient_factor = context.clip > 0 && norm > context.clip ? static_cast<float>(context.clip / norm) : 1.0f;
  if (issued.instruction->share >= 0) return optimize_share(issued, adamw);
  const auto part = static_cast<std::size_t>(issued.instruction->part);
  auto* parameters = issued.task.operand<float>(Role::parameters);
  auto* weights = issued.task.operand<std::byte>(Role::weights);
  backend_.adamw(adamw, binding_.rank_class().parts[part], decays_[part], parameters,
                 weights == nullptr ? reinterpret_cast<std::byte*>(parameters) : weights, issued.task.operand<float>(Role::gradients),
                 issued.task.operand<float>(Role::moment1), issued.task.operand<float>(Role::moment2));
}

/// Weights that are gathered packed go there as they are.
void Executor::keep_share(BoundInstruction& issued) {
  const auto& instruction = *issued.instruction;
  if (instruction.share < 0) return;
  const auto& part = binding_.rank_class().parts[static_cast<std::size_t>(instruction.part)];
  if (!part.shares[static_cast<std::size_t>(instruction.share)].packed()) return;
  const std::int64_t width = element_size(binding_.program().plan.precision).count;
  const auto* parameters = issued.task.operand<float>(Role::parameters);
  auto* weights = issued.task.operand<std::byte>(Role::weights);
  for (const auto& piece : pieces_)
    if (piece.part == instruction.part && piece.share == instruction.share)
      backend_.convert({parameters + piece.kept, static_cast<std::size_t>(piece.count)}, weights + piece.summed * width);
}

/// Piece by piece: tensors differ in whether they decay, and the share's buffers are laid out otherwise than the part's.
void Executor::optimize_share(BoundInstruction& issued, const compute::AdamW& adamw) {
  const auto& instruction = *issued.instruction;
  const auto& part = binding_.rank_class().parts[static_cast<std::size_t>(instruction.part)];
  const auto& share = part.shares[static_cast<std::size_t>(instruction.share)];
  const std::int64_t width = element_size(binding_.program().plan.precision).count;
  const bool in_place = share.parameters == part.parameters;
  auto* parameters = issued.task.operand<float>(Role::parameters);
  auto* weights = issued.task.operand<std::byte>(Role::weights);
  auto* gradients = issued.task.operand<float>(Role::gradients);
  auto *moment1 = issued.task.operand<float>(Role::moment1), *moment2 = issued.task.operand<float>(Role::moment2);
  for (const auto& piece : pieces_) {
    if (piece.part != instruction.part || piece.share != instruction.share) continue;
    piece_part_.slots.front() = {piece.tensor, 0, piece.count};
    float* values = parameters + (in_place ? piece.summed : piece.kept);
    std::byte* copy = weights == nullptr ? reinterpret_cast<std::byte*>(values) : weights + piece.summed * width;
    backend_.adamw(adamw, piece_part_, {&decays_[static_cast<std::size_t>(instruction.part)][static_cast<std::size_t>(piece.slot)], 1},
                   values, copy, gradients + (share.packed() ? piece.kept : piece.summed), moment1 + piece.kept, moment2 + piece.kept);
  }
}

void Executor::collect_timeline() {
  const auto& list = binding_.issued_instructions();
  for (std::size_t i = 0; i < list.size(); ++i)
    timeline_[i] = {static_cast<int>(list[i].instruction - binding_.rank_class().instructions.data()), list[i].microbatch, started_[i],
                    ended_[i]};
}

}  // namespace flotilla::train
