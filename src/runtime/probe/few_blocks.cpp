#include "few_blocks.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <span>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/base/philox.hpp"
#include "flotilla/model/tensors.hpp"
#include "flotilla/plan/shard_layout.hpp"
#include "text_tokens.hpp"

namespace flotilla::probe {

using program::CollectiveKind;
using program::LayerOperation;
using program::Role;

namespace {

compute::Setup setup_of(const model::Config& model, int length, const MeasuredShape& shape, int threads, compute::ComputeDevice device) {
  return {model, length, shape.tensor_parallel, 0, shape.precision, threads, 0, false, device};
}

/// Weights and gradients that lie between two visits of a block: more than a core's own caches and its share of the last level.
constexpr std::int64_t far_apart = 128 << 20;

model::Config with_blocks(model::Config model, int blocks) {
  model.blocks = blocks;
  return model;
}

/// Numbers in (-1, 1), over and over. No operation's time depends on how random its values are, only on their not being zero or denormal.
const std::vector<float>& ordinary_numbers() {
  static const std::vector<float> numbers = [] {
    std::vector<float> values(4093);  // a prime, so that rows of a matrix differ
    const Philox random{20261120, 1};
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 2 * flotilla::uniform(random(i)[0]) - 1;
    return values;
  }();
  return numbers;
}

/// Each token of the vocabulary as often as any other.
std::vector<std::int32_t> even_tokens(int vocabulary, std::size_t count) {
  std::vector<std::int32_t> ids(count);
  const Philox random{20261120, 2};
  for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<std::int32_t>(random(i)[0] % static_cast<unsigned>(vocabulary));
  return ids;
}

std::vector<float> scaled(std::vector<float> numbers, float scale) {
  for (float& number : numbers) number *= scale;
  return numbers;
}

constexpr Bytes between_arena_and_beside{256};  // both begin as an allocation does

/// Of the tensor-parallel group's statistics of the logits.
bool gathers_stats(const program::Instruction& instruction) {
  const auto* collective = instruction.as<program::Collective>();
  return collective != nullptr && collective->kind == CollectiveKind::all_gather && instruction.access(Role::stats) != nullptr;
}

bool is_input(const program::Access& access) {
  return access.role == Role::input || access.role == Role::partial || access.role == Role::gradient;
}

/// Replaces what came after the first `count` values by its mean.
void average_from(std::vector<double>& values, std::size_t count) {
  if (values.size() <= count) return;
  const auto first = values.begin() + static_cast<std::ptrdiff_t>(count);
  const double mean = std::accumulate(first, values.end(), 0.0) / static_cast<double>(values.end() - first);
  values.resize(count);
  values.push_back(mean);
}

}  // namespace

int distinct_blocks(const model::Config& model, const MeasuredShape& shape) {
  std::int64_t elements = 0;
  for (const auto& tensor : model::tensors(with_blocks(model, 1)))
    if (tensor.layer == 1 && tensor.tied_layer < 0) elements += plan::shard_elements(tensor, shape.tensor_parallel, 0);
  const std::int64_t block = elements * (element_size(shape.precision).count + static_cast<std::int64_t>(sizeof(float)));
  const auto few = static_cast<int>(std::clamp<std::int64_t>((far_apart + block - 1) / std::max<std::int64_t>(1, block), 1, model.blocks));
  const int kinds = std::max(1, static_cast<int>(model.windows.size()));
  return std::min(model.blocks, (few + kinds - 1) / kinds * kinds);
}

FewBlocks::FewBlocks(const model::Config& model, int length, MeasuredShape shape, int threads, int blocks, compute::ComputeDevice device,
                     std::shared_ptr<TakenInTurns> turns)
    : model_{with_blocks(model, blocks)}, length_{length}, shape_{shape}, threads_{threads}, device_{device}, turns_{std::move(turns)} {
  const auto plan = plan::even_plan(model_, length, shape.sequences, shape.precision, 1, 1, shape.tensor_parallel, shape.sequences);
  program::Runtime runtime;
  runtime.name = "flotilla probe";
  runtime.threads = threads;
  runtime.library_scratch = compute::library_scratch(setup_of(model_, length, shape, threads, device), shape.sequences);
  program_ = program::lower(plan, runtime);
  order_ = program::expand(program_, Rank{0});
}

Bytes FewBlocks::memory() const {
  Bytes total = rank_class().arena;
  if (on_gpu()) return align_up(total, between_arena_and_beside.count) + kept_in_all() + workspace_of_halves();
  for (const auto& part : rank_class().parts) total = total - part.elements * Bytes{2 * sizeof(float)};
  return total + kept_in_all() + workspace_of_halves();
}

Bytes FewBlocks::kept_in_all() const { return model_.blocks * model::kept_layout(model_, rank_class().shape).total; }

Bytes FewBlocks::workspace_of_halves() const {
  Bytes most;
  for (const Split& split : splits)
    for (const auto half : {split.input, split.weights})
      most = std::max(most, model::workspace(model_, rank_class().shape, half, threads_));
  return most;
}

double FewBlocks::flops() const {
  double sum = 0;
  for (const auto& instruction : rank_class().instructions)
    if (const auto* layer = instruction.as<LayerOperation>()) sum += model::flops(model_, rank_class().shape, layer->operation);
  return sum;
}

std::byte* FewBlocks::at(int buffer) const {
  return arena_at_ + program::offset_of(rank_class().buffers[static_cast<std::size_t>(buffer)], 0).count;
}

/// A backend that has its scratchpad where it was before is ready: preparing it again would prove its attention again.
void FewBlocks::open() {
  const auto& c = rank_class();
  if (!bench_) bench_ = std::make_unique<Workbench>(setup_of(model_, length_, shape_, threads_, device_));
  is_fresh_ = true;
  if (turns_ && on_gpu()) {
    std::byte* const before = arena_at_;
    arena_at_ = bench_->take_in_turn(*turns_, memory());
    beside_at_ = arena_at_ + align_up(c.arena, between_arena_and_beside.count).count;
    if (arena_at_ == before) return;
  } else {
    arena_ = bench_->take(c.arena);
    beside_ = bench_->take(kept_in_all() + workspace_of_halves());
    arena_at_ = arena_->data(), beside_at_ = beside_->data();
  }
  if (c.scratch >= 0)
    backend().set_scratch({at(c.scratch), static_cast<std::size_t>(c.buffers[static_cast<std::size_t>(c.scratch)].size.count)});
  backend().prepare(shape_.sequences);
}

void FewBlocks::prepare() {
  if (!is_fresh_) open();
  is_fresh_ = false;
  touch();
  for (const auto& part : rank_class().parts) fill_part(part);
  fill_activations();
  fill_tokens();
  fill_other_members_stats();
}

/// So that no pass meets a page fault. The optimizer's state is left out on the host: a large model's would not fit.
void FewBlocks::touch() {
  const Bytes beside = kept_in_all() + workspace_of_halves();
  if (on_gpu()) {
    backend().fill({arena_at_, static_cast<std::size_t>(rank_class().arena.count)}, 0);
    backend().fill({beside_at_, static_cast<std::size_t>(beside.count)}, 0);
    return;
  }
  constexpr std::int64_t page = 4096;
  std::set<int> state;
  for (const auto& part : rank_class().parts) state.insert({part.moment1, part.moment2});
  for (int b = 0; b < static_cast<int>(rank_class().buffers.size()); ++b) {
    if (state.contains(b)) continue;
    const auto& buffer = rank_class().buffers[static_cast<std::size_t>(b)];
    for (std::int64_t offset = 0; offset < buffer.size.count; offset += page) at(b)[offset] = std::byte{0};
  }
  for (std::int64_t offset = 0; offset < beside.count; offset += page) beside_at_[offset] = std::byte{0};
}

/// Numbers over and over, as fp32 or narrowed to the precision: the first few come from the host, the device copies the rest.
void FewBlocks::fill_with(std::byte* to, std::span<const float> numbers, std::int64_t elements, bool narrowed) {
  const auto first = numbers.first(std::min(numbers.size(), static_cast<std::size_t>(elements)));
  const std::int64_t width = narrowed ? element_size(shape_.precision).count : static_cast<std::int64_t>(sizeof(float));
  if (narrowed && on_gpu()) {
    const auto staging = bench_->take(Bytes{static_cast<std::int64_t>(first.size_bytes())});
    bench_->put(staging->data(), std::as_bytes(first));
    backend().convert({reinterpret_cast<const float*>(staging->data()), first.size()}, to);
    bench_->wait();
  } else if (narrowed) {
    backend().convert(first, to);
  } else {
    bench_->put(to, std::as_bytes(first));
  }
  bench_->repeat(to, static_cast<std::int64_t>(first.size()) * width, elements * width);
}

void FewBlocks::fill_part(const program::Part& part) {
  auto* const parameters = reinterpret_cast<float*>(at(part.parameters));
  const auto ordinary = scaled(ordinary_numbers(), static_cast<float>(model_.init_std * 1.7320508));  // a uniform distribution's width
  for (const auto& slot : part.slots) {
    const auto init = program_.tensors[static_cast<std::size_t>(slot.tensor)].init;
    const std::array even{init == model::Init::ones ? 1.0f : 0.0f};
    const bool is_even = init == model::Init::zeros || init == model::Init::ones;
    fill_with(reinterpret_cast<std::byte*>(parameters + slot.offset), is_even ? std::span<const float>{even} : std::span{ordinary},
              slot.elements, false);
  }
  if (part.weights != part.parameters) backend().convert({parameters, static_cast<std::size_t>(part.elements)}, at(part.weights));
}

void FewBlocks::fill_tokens() {
  const auto& instructions = rank_class().instructions;
  const auto load = std::ranges::find_if(instructions, [](const auto& i) { return i.template as<program::TokenLoad>() != nullptr; });
  FLOTILLA_ASSERT(load != instructions.end(), "a program without tokens");
  const auto count = static_cast<std::size_t>(std::int64_t{shape_.sequences} * (length_ + 1));
  const auto ids = text_tokens_ ? text_tokens(model_.vocabulary, count) : even_tokens(model_.vocabulary, count);
  bench_->put(at(load->access(Role::tokens)->buffer), std::as_bytes(std::span{ids}));
}

std::int64_t FewBlocks::elements_of(const program::Access& access) const {
  return rank_class().buffers[static_cast<std::size_t>(access.buffer)].size.count / element_size(shape_.precision).count;
}

/// So that an operation may run without those before it: its inputs hold ordinary numbers.
void FewBlocks::fill_activations() {
  for (const auto& instruction : rank_class().instructions)
    for (const auto& access : instruction.accesses)
      if (is_input(access)) fill_with(at(access.buffer), ordinary_numbers(), elements_of(access), true);
}

/// The rows that an all-gather would bring: (maximum, sum of exponentials, logit of the target), finite.
void FewBlocks::fill_other_members_stats() {
  std::vector<float> rows;
  for (std::int64_t i = 0; i < rank_class().shape.tokens() * shape_.tensor_parallel; ++i) rows.insert(rows.end(), {0.0f, 1.0f, 0.0f});
  for (const auto& instruction : rank_class().instructions)
    if (gathers_stats(instruction)) bench_->put(at(instruction.access(Role::gathered_stats)->buffer), std::as_bytes(std::span{rows}));
}

void FewBlocks::gather_stats(const program::Instruction& instruction) {
  const std::int64_t own = rank_class().shape.tokens() * 3 * static_cast<std::int64_t>(sizeof(float));
  backend().copy(at(instruction.access(Role::gathered_stats)->buffer), at(instruction.access(Role::stats)->buffer), {.width = own});
}

compute::Task FewBlocks::task(const program::Instruction& instruction, const LayerOperation& layer) const {
  compute::Task task;
  task.operation = layer.operation;
  task.layer = layer.layer;
  task.sequences = shape_.sequences;
  for (const auto& access : instruction.accesses) task.operands[static_cast<std::size_t>(access.role)] = at(access.buffer);
  const auto& parts = rank_class().parts;
  if (layer.part >= 0) task.part = &parts[static_cast<std::size_t>(layer.part)];
  if (layer.token_embedding_part >= 0) task.token_embedding_part = &parts[static_cast<std::size_t>(layer.token_embedding_part)];
  task.loss_scale = 1.0f / static_cast<float>(rank_class().shape.tokens());
  return task;
}

namespace {

std::vector<std::size_t> sizes_of(const std::vector<std::vector<double>>& samples) {
  std::vector<std::size_t> sizes;
  for (const auto& runs : samples) sizes.push_back(runs.size());
  return sizes;
}

}  // namespace

void FewBlocks::run(const compute::Task& work, Clock clock) {
  bench_->start(clock);
  backend().run(work);
  bench_->stop();
  run_.push_back(measured_index(work.operation));
}

/// The times of what has run since the last call.
void FewBlocks::collect(std::vector<std::vector<double>>& samples) {
  samples.resize(measured_count);
  const auto before = sizes_of(samples);
  const auto times = bench_->times();
  for (std::size_t i = 0; i < times.size(); ++i) samples[run_[i]].push_back(times[i].value);
  run_.clear();
  if (model_.windows.size() < 2) return;
  for (std::size_t o = 0; o < samples.size(); ++o) average_from(samples[o], before[o]);
}

void FewBlocks::pass(std::vector<std::vector<double>>& samples, Clock clock) {
  for (const auto& issued : order_) {
    const auto& instruction = rank_class().instructions[static_cast<std::size_t>(issued.instruction)];
    if (gathers_stats(instruction)) gather_stats(instruction);
    if (const auto* layer = instruction.as<LayerOperation>()) run(task(instruction, *layer), clock);
  }
  collect(samples);
}

compute::Task FewBlocks::half(compute::Task whole, model::Operation operation) const {
  const Bytes each = model::kept_layout(model_, rank_class().shape).total;
  const auto set = [&](Role role, std::int64_t offset) { whole.operands[static_cast<std::size_t>(role)] = beside_at_ + offset; };
  whole.operation = operation;
  if (model_.is_block(whole.layer)) set(Role::kept, (whole.layer - 1) * each.count);
  set(Role::workspace, kept_in_all().count);
  return whole;
}

void FewBlocks::halves(std::vector<std::vector<double>>& samples, Clock clock) {
  std::vector<compute::Task> of_weights;
  for (const auto& issued : order_) {
    const auto& instruction = rank_class().instructions[static_cast<std::size_t>(issued.instruction)];
    const auto* layer = instruction.as<LayerOperation>();
    if (layer == nullptr) continue;
    const auto split = std::ranges::find(splits, layer->operation, &Split::whole);
    if (split == splits.end()) continue;
    run(half(task(instruction, *layer), split->input), clock);
    of_weights.push_back(half(task(instruction, *layer), split->weights));
  }
  for (const auto& work : of_weights) run(work, clock);
  collect(samples);
}

Seconds FewBlocks::run(model::Operation operation) {
  const auto& instructions = rank_class().instructions;
  const auto instruction = std::ranges::find_if(instructions, [&](const program::Instruction& i) {
    const auto* layer = i.as<LayerOperation>();
    return layer != nullptr && layer->operation == operation;
  });
  FLOTILLA_ASSERT(instruction != instructions.end(), "a program without ", model::to_string(operation));
  run(task(*instruction, *instruction->as<LayerOperation>()), now);
  run_.clear();
  return bench_->times().back();
}

void FewBlocks::update() {
  compute::AdamW step;
  step.learning_rate = 1e-3f;
  const auto floats = [&](int buffer) { return reinterpret_cast<float*>(at(buffer)); };
  for (const auto& part : rank_class().parts) {
    const std::vector<std::uint8_t> decays(part.slots.size(), 1);
    backend().adamw(step, part, decays, floats(part.parameters), at(part.weights), floats(part.gradients), floats(part.moment1),
                    floats(part.moment2));
  }
}

std::uint64_t FewBlocks::digest() const {
  std::uint32_t gradients = 0, parameters = 0;
  for (const auto& part : rank_class().parts) {
    const auto size = static_cast<std::size_t>(part.elements) * sizeof(float);
    gradients = crc32c(bench_->get(at(part.gradients), size), gradients);
    parameters = crc32c(bench_->get(at(part.parameters), size), parameters);
  }
  return std::uint64_t{gradients} << 32 | parameters;
}

}  // namespace flotilla::probe
