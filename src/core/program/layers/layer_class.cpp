#include "layer_class.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/schedule/schedule.hpp"

namespace flotilla::program {
LayerSlots layer_slots(const LayerKind& kind, int depth, int chunks, bool fewer_shards) {
  LayerSlots slots;
  int next_slot = 0;
  const bool wraps = chunks > 1 && depth > 1;
  if (kind.talks_back && (kind.position > 0 || wraps)) slots.previous = next_slot++;
  if (kind.talks_forth && (kind.position + 1 < depth || wraps)) slots.next = next_slot++;
  if (kind.meets) slots.tensor = 1;
  if (kind.sums) slots.shards = slots.data = kind.meets ? 2 : 1;
  if (kind.sums && fewer_shards) ++slots.shards;
  return slots;
}

int shard_group(const plan::Plan& plan, const LayerRuntime& runtime) {
  const auto replicas = static_cast<int>(plan.stages.front().replicas.size());
  if (!plan.shard_optimizer) return replicas;
  return runtime.shard_group > 0 ? std::min(runtime.shard_group, replicas) : replicas;
}

LayerClassBuilder::LayerClassBuilder(const plan::Plan& plan, const LayerSizes& sizes, const Runtime& runtime, LayerKind kind)
    : plan_{plan},
      sizes_{sizes},
      runtime_{*runtime.layers},
      kind_{std::move(kind)},
      depth_{plan::own_stages(plan)},
      shard_group_{shard_group(plan, runtime_)},
      sharded_{plan.shard_optimizer && shard_group_ > 1},
      slots_{layer_slots(kind_, depth_, plan.chunks, shard_group_ < static_cast<int>(plan.stages.front().replicas.size()))} {
  out_.stage = kind_.position;
  out_.device_type = kind_.device_type;
  out_.shape = {kind_.microbatch, plan_.length, kind_.tensor_parallel, 0, plan_.precision};
  out_.shape.expert_parallel = expert_group(plan_, runtime_);
  out_.microbatches = (kind_.sequences + kind_.microbatch - 1) / kind_.microbatch;
  out_.last_sequences = kind_.sequences - std::max(0, out_.microbatches - 1) * kind_.microbatch;
}

schedule::PassOrder LayerClassBuilder::order(int microbatches) const {
  return schedule::schedule_of(plan_).order({depth_, kind_.position, microbatches, plan_.chunks});
}

RankClass LayerClassBuilder::build() {
  for (int chunk = 0; chunk < plan_.chunks; ++chunk) add_chunk(chunk);
  out_.blocks = pass_loops(order(out_.microbatches), out_.microbatches, chunks_);
  Block closing{1, {}};
  for (int instruction : closing_instructions()) closing.steps.push_back({instruction, 0});
  out_.blocks.push_back(std::move(closing));
  add_memory();
  return std::move(out_);
}

int LayerClassBuilder::add_instruction(Instruction instruction) {
  out_.instructions.push_back(std::move(instruction));
  return static_cast<int>(out_.instructions.size()) - 1;
}

int LayerClassBuilder::add_host(const std::string& name, Seconds time, bool per_microbatch, bool backward) {
  Instruction instruction;
  instruction.name = name;
  instruction.work = HostWork{time};
  instruction.per_microbatch = per_microbatch;
  instruction.backward = backward;
  return add_instruction(std::move(instruction));
}

void LayerClassBuilder::add_chunk(int chunk) { chunks_.push_back({pass_instructions(chunk, false), pass_instructions(chunk, true)}); }

PassInstructions LayerClassBuilder::pass_instructions(int chunk, bool backward) {
  const bool receives = backward ? !is_last(chunk) : !is_first(chunk), sends = backward ? !is_first(chunk) : !is_last(chunk);
  PassInstructions instructions;
  add_layers(instructions.work, chunk, backward);
  if (receives && talks(false, backward)) add_message(instructions.receive, message(false, chunk, backward), instructions.work.front());
  if (receives && kind_.meets) add_meeting(instructions.receive, backward, instructions.work.front());
  if (sends && talks(true, backward)) add_message(instructions.send, message(true, chunk, backward), instructions.work.back());
  return instructions;
}

int LayerClassBuilder::blocks_between_copies(int chunk) const {
  const auto& here = stage(chunk);
  const int first = std::max(here.first_layer, 1), last = std::min(here.last_layer, plan_.model.blocks + 1);
  const int copied = std::min(last, runtime_.blocks_in_host + 1) - first;
  return copied > 0 ? (last - first) / copied : 1;
}

int LayerClassBuilder::add_pass(int chunk, int layer, bool backward) {
  const auto recompute = stage(chunk).recompute;
  const bool repeats = backward && recompute != plan::Recompute::none && sizes_.repeats(layer);
  Instruction instruction;
  instruction.name = text(backward ? "backward " : "forward ", layer);
  instruction.work = LayerPass{layer, repeats, runtime_.profiler_host, sizes_.in_host(layer, out_.shape, recompute),
                               runtime_.host_copies_block ? 0 : blocks_between_copies(chunk)};
  instruction.backward = backward;
  return add_instruction(std::move(instruction));
}

int LayerClassBuilder::add_shard_exchange(CollectiveKind kind, int layer, bool backward, int after) {
  const bool gathers = kind == CollectiveKind::all_gather_shards;
  const Bytes size = sizes_.parameters(layer, layer + 1, kind_.tensor_parallel) * (gathers ? gathered() : gradient());
  Instruction instruction;
  instruction.name = text(gathers ? "gather weights " : "scatter gradients ", layer);
  instruction.work = Collective{kind, slots_.shards, {{}, size}, {}};
  instruction.queue = Queue::sum;
  instruction.backward = backward;
  if (after >= 0) instruction.waits.push_back({after, 0});
  return add_instruction(std::move(instruction));
}

void LayerClassBuilder::add_layers(std::vector<int>& instructions, int chunk, bool backward) {
  const auto& here = stage(chunk);
  const bool gathers = kind_.sums && shards(ShardedState::parameters), scatters = gathers && backward;
  const int ahead = runtime_.overlaps ? 2 : 1;  // a layer's weights are gathered during the pass before, or when that has ended
  std::vector<int> passes;
  const auto scatter = [&](int layer) {
    if (scatters) instructions.push_back(add_shard_exchange(CollectiveKind::reduce_scatter_shards, layer, true, passes.back()));
  };
  for (int i = 0; i < here.last_layer - here.first_layer; ++i) {
    const int layer = backward ? here.last_layer - 1 - i : here.first_layer + i;
    const int before = i >= ahead ? passes[static_cast<std::size_t>(i - ahead)] : -1;
    const int gather = gathers ? add_shard_exchange(CollectiveKind::all_gather_shards, layer, backward, before) : -1;
    if (gathers) instructions.push_back(gather);
    if (i > 0) scatter(layer + 1);
    passes.push_back(add_pass(chunk, layer, backward));
    if (gathers) out_.instructions.back().waits.push_back({gather, 0});
    instructions.push_back(passes.back());
    if (backward) last_backward_.emplace_back(layer, passes.back());
  }
  scatter(here.first_layer);
}

bool LayerClassBuilder::talks(bool sends, bool backward) const {
  const bool forth = sends != backward;  // the other end is the next stage
  return forth ? kind_.talks_forth : kind_.talks_back;
}

/// Members without a message of their own wait here for those that have one.
void LayerClassBuilder::add_meeting(std::vector<int>& instructions, bool backward, int work_instruction) {
  Instruction instruction;
  instruction.name = backward ? "gradient is here" : "activation is here";
  instruction.work = Collective{CollectiveKind::all_gather, slots_.tensor, {}, {}};
  instruction.queue = Queue::reduce;
  instruction.backward = backward;
  for (int before : instructions) instruction.waits.push_back({before, 0});
  instructions.push_back(add_instruction(std::move(instruction)));
  out_.instructions[static_cast<std::size_t>(work_instruction)].waits.push_back({instructions.back(), 0});
}

/// The boundary between virtual stages v and v + 1 has channels 2 v (activations) and 2 v + 1 (gradients).
Instruction LayerClassBuilder::message(bool sends, int chunk, bool backward) const {
  const int stage = chunk * depth_ + kind_.position;
  const bool forth = sends != backward;  // the other end is the next stage
  MessageEnd end;
  end.direction = sends ? MessageEnd::Direction::send : MessageEnd::Direction::receive;
  end.peer = forth ? slots_.next : slots_.previous;
  end.channel = 2 * (forth ? stage : stage - 1) + (backward ? 1 : 0);
  end.once = !runtime_.scattered;
  Instruction instruction;
  instruction.name = text(sends ? "send " : "receive ", backward ? "gradient" : "activation", plan_.chunks > 1 ? text(" ", chunk) : "");
  instruction.work = std::move(end);
  instruction.backward = backward;
  return instruction;
}

/// In two parts where the runtime blocks: the first holds both ends, the last fits into the library's buffers: the sender goes on while it
/// drains, the receiver needs it too.
void LayerClassBuilder::add_message(std::vector<int>& instructions, Instruction part, int work_instruction) {
  const bool sends = part.sends();
  const std::int64_t sequence = sizes_.boundary().count / (runtime_.scattered ? kind_.tensor_parallel : 1);
  const std::int64_t buffered = runtime_.blocking ? std::min(sequence, runtime_.buffered.count / kind_.microbatch) : sequence;
  if (runtime_.handshake.value > 0) instructions.push_back(add_host("announce transfer", runtime_.handshake, true, part.backward));
  std::vector<Wait> ready;
  if (sends) ready = {{work_instruction, 0}};
  // The receiver's buffers are free again when the pass before has taken its data.
  if (!sends && runtime_.blocking) ready = {{work_instruction, 1}};
  if (sequence > buffered) {
    Instruction held = part;
    held.queue = Queue::compute;
    held.as<MessageEnd>()->size.per_sequence = {sequence - buffered};
    instructions.push_back(add_instruction(std::move(held)));
    ready = {{instructions.back(), 0}};
  }
  if (buffered <= 0) return;
  part.queue = sends ? Queue::send : Queue::receive;
  part.as<MessageEnd>()->size.per_sequence = {buffered};
  part.waits = ready;
  instructions.push_back(add_instruction(std::move(part)));
  if (!sends) out_.instructions[static_cast<std::size_t>(work_instruction)].waits.push_back({instructions.back(), 0});
}

int LayerClassBuilder::add_once(const std::string& name, Instruction::Work work, bool backward, int after) {
  Instruction instruction;
  instruction.name = name;
  instruction.work = std::move(work);
  instruction.queue = instruction.as<Collective>() != nullptr ? Queue::reduce : Queue::compute;
  instruction.per_microbatch = false;
  instruction.backward = backward;
  instruction.waits = {{after, last_run}};
  return add_instruction(std::move(instruction));
}

void LayerClassBuilder::add_sums(std::vector<int>& instructions) {
  const Bytes all = parameters(kind_.sum_parallel) * gradient();
  const Bytes most = runtime_.reduction_bucket.count > 0 ? runtime_.reduction_bucket : all;
  const auto kind = sharded_ && slots_.shards == slots_.data ? CollectiveKind::reduce_scatter_shards : CollectiveKind::all_reduce;
  for (Bytes done{}; done < all; done += most)
    instructions.push_back(
        add_once("sum gradients", Collective{kind, slots_.data, {{}, std::min(most, all - done)}, {}}, true, instructions.back()));
}

void LayerClassBuilder::add_overlapped_sums(std::vector<int>& instructions) {
  const auto kind = sharded_ && slots_.shards == slots_.data ? CollectiveKind::reduce_scatter_shards : CollectiveKind::all_reduce;
  for (const auto& [layer, pass] : last_backward_) {
    const Bytes size = sizes_.parameters(layer, layer + 1, kind_.sum_parallel) * gradient();
    instructions.push_back(add_once(text("sum gradients ", layer), Collective{kind, slots_.data, {{}, size}, {}}, true, pass));
    out_.instructions.back().queue = Queue::sum;
  }
}

/// Elements whose optimizer state is here.
std::int64_t LayerClassBuilder::updated() const {
  const std::int64_t all = parameters(kind_.tensor_parallel), experts = expert_parameters(kind_.tensor_parallel);
  return sharded_ ? (all - experts) / shard_group_ + experts / expert_keepers() : all;
}

/// Replicas among which the state of one group's experts is sharded.
int LayerClassBuilder::expert_keepers() const { return std::max(1, shard_group_ / out_.shape.expert_parallel); }

void LayerClassBuilder::add_update(std::vector<int>& instructions) {
  Part part;
  part.name = "all";
  part.elements = updated();
  out_.parts.push_back(std::move(part));
  instructions.push_back(add_once("optimizer", OptimizerUpdate{0, -1}, false, instructions.back()));
  if (!sharded_ || slots_.shards < 0 || shards(ShardedState::parameters)) return;
  const Bytes weights = parameters(kind_.tensor_parallel) * gathered();
  instructions.push_back(add_once("gather weights", Collective{CollectiveKind::all_gather_shards, slots_.shards, {{}, weights}, {}}, false,
                                  instructions.back()));
}

/// Everybody ends the pipeline together; then gradients are summed, but for what ran beside the passes, and weights updated.
std::vector<int> LayerClassBuilder::closing_instructions() {
  std::vector<int> instructions{
      add_host("end of the passes", runtime_.step_host + (slots_.data >= 0 ? runtime_.reduction_host : Seconds{0}), false, true)};
  const bool scattered = shards(ShardedState::parameters), sums = slots_.data >= 0 && !scattered;
  if (sums && runtime_.overlaps) add_overlapped_sums(instructions);
  const Collective meeting{CollectiveKind::reduce_scalars, slots_.world, {{}, {8}}, {}};
  instructions.push_back(add_once("meet", meeting, false, instructions.back()));
  if (sums && !runtime_.overlaps) add_sums(instructions);
  add_update(instructions);
  return instructions;
}

std::int64_t LayerClassBuilder::parameters(int tensor_parallel) const {
  std::int64_t elements = 0;
  for (int chunk = 0; chunk < plan_.chunks; ++chunk)
    elements += sizes_.parameters(stage(chunk).first_layer, stage(chunk).last_layer, tensor_parallel);
  return elements;
}

std::int64_t LayerClassBuilder::expert_parameters(int tensor_parallel) const {
  std::int64_t elements = 0;
  for (int chunk = 0; chunk < plan_.chunks; ++chunk)
    elements += sizes_.expert_parameters(stage(chunk).first_layer, stage(chunk).last_layer, tensor_parallel);
  return elements;
}

void LayerClassBuilder::add_buffer(const std::string& name, Category category, Bytes size, bool persistent) {
  if (size.count <= 0) return;
  Buffer buffer;
  buffer.name = name;
  buffer.category = category;
  buffer.size = size;
  buffer.persistent = persistent;
  buffer.offset = out_.arena;
  buffer.stride = align_up(size, arena_alignment);
  out_.arena += buffer.stride;
  out_.buffers.push_back(std::move(buffer));
}

void LayerClassBuilder::add_memory() {
  const auto& each = runtime_.per_parameter(plan_.precision);
  const std::int64_t elements = parameters(kind_.tensor_parallel);
  const std::int64_t of_experts = expert_parameters(kind_.tensor_parallel);
  const int keepers = expert_keepers();
  const auto held = [&](ShardedState what) {
    if (!shards(what)) return elements;
    return (elements - of_experts + shard_group_ - 1) / shard_group_ + (of_experts + keepers - 1) / keepers;
  };
  const bool wraps = plan_.chunks > 1;
  const int neighbours = (kind_.position > 0 || wraps ? 1 : 0) + (kind_.position + 1 < depth_ || wraps ? 1 : 0);
  const Live live = peak_of_passes();
  add_buffer("weights", Category::parameters, held(ShardedState::parameters) * each.weights);
  add_buffer("gradients", Category::gradients, held(ShardedState::gradients) * each.gradients);
  add_buffer("optimizer", Category::optimizer, held(ShardedState::optimizer) * each.optimizer);
  add_buffer("gradient buckets", Category::communication, elements * each.communication + summed_together());
  add_buffer("communicators", Category::communication,
             neighbours * runtime_.neighbour + (kind_.tensor_parallel > 1 ? runtime_.tensor_group : Bytes{0}));
  add_buffer("workspaces", Category::workspace, runtime_.workspaces);
  add_buffer("gradients of logits", Category::activations, deferred_gradients(), false);
  add_buffer("saved activations", Category::activations, live.saved, false);
  add_buffer("temporaries", Category::workspace, live.temporaries, false);
  // Where the activations were, and more where that does not do.
  add_buffer("temporaries of the update", Category::workspace, update_temporaries() - live.total() - deferred_gradients(), false);
}

Bytes LayerClassBuilder::summed_together() const {
  if (plan_.precision != Precision::bf16) return {};
  return std::min(runtime_.summed_together, parameters(kind_.tensor_parallel)) * element_size(Precision::fp32);
}

Bytes LayerClassBuilder::update_temporaries() const {
  return plan_.precision == Precision::fp32 ? Bytes{} : updated() * runtime_.update_temporaries_half;
}

/// Of the logits of every micro-batch but the last, whose own stand among the temporaries.
Bytes LayerClassBuilder::deferred_gradients() const {
  const bool has_head = stage(plan_.chunks - 1).last_layer == plan_.model.layers();
  if (!runtime_.defers_head || !has_head) return {};
  const std::int64_t logits = out_.shape.tokens() * model::local_vocabulary(plan_.model, out_.shape);
  return (out_.microbatches - 1) * logits * element_size(plan_.precision);
}

Bytes LayerClassBuilder::saved(int chunk) const {
  Bytes sum;
  for (int layer = stage(chunk).first_layer; layer < stage(chunk).last_layer; ++layer)
    sum += sizes_.saved(layer, out_.shape, stage(chunk).recompute);
  return sum;
}

/// A backward pass frees layer by layer, from the last; it is fullest at the layer whose temporaries outweigh what has been freed.
LayerClassBuilder::Live LayerClassBuilder::peak_of_backward(int chunk) const {
  const auto& here = stage(chunk);
  Live most, now{saved(chunk), {}};
  for (int layer = here.last_layer - 1; layer >= here.first_layer; --layer) {
    now.temporaries = sizes_.temporaries(layer, out_.shape, here.recompute);
    if (now.total() > most.total()) most = now;
    now.saved = now.saved - sizes_.saved(layer, out_.shape, here.recompute);
  }
  return most;
}

LayerClassBuilder::Live LayerClassBuilder::peak_of_passes() const {
  // The steady state repeats: a few microbatches more than are ever in flight show all of it.
  const int enough = std::min(out_.microbatches, 3 * depth_);
  std::vector<Bytes> whole;
  std::vector<Live> backward;
  for (int chunk = 0; chunk < plan_.chunks; ++chunk) {
    whole.push_back(saved(chunk));
    backward.push_back(peak_of_backward(chunk));
  }
  Live most;
  Bytes live;
  for (const schedule::Pass& pass : schedule::passes_of(order(enough))) {
    const auto chunk = static_cast<std::size_t>(pass.chunk);
    const bool back = pass.work == schedule::Work::backward;
    if (back) live = live - whole[chunk];
    const Live now = back ? Live{live + backward[chunk].saved, backward[chunk].temporaries} : Live{live + whole[chunk], {}};
    if (now.total() > most.total()) most = now;
    if (!back) live += whole[chunk];
  }
  return most;
}

}  // namespace flotilla::program
