#include "class_builder.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/plan/shard_layout.hpp"
#include "flotilla/program/collectives.hpp"
#include "layout.hpp"
#include "schedule.hpp"

namespace flotilla::program {
namespace {

constexpr std::int64_t slot_alignment = 16;  // elements: one cache line of fp32, half of one in bf16

model::LayerShape shape_of(const ClassInput& in) {
  const bool shares = in.plan.sequence_parallel && in.kind.tensor_parallel > 1;
  return {in.kind.microbatch, in.plan.length, in.kind.tensor_parallel, in.tensor_index, in.plan.precision, shares};
}

}  // namespace

ClassBuilder::ClassBuilder(const ClassInput& in) : in_{in}, slots_{slots_of(in.kind)}, chunks_(static_cast<std::size_t>(in.plan.chunks)) {
  for (chunk_ = 0; chunk_ < chunk_count(); ++chunk_) {
    const auto& stage = in.plan.stages[static_cast<std::size_t>(stage_index())];
    auto& chunk = chunks_[static_cast<std::size_t>(chunk_)];
    chunk.chunk_ = chunk_;
    chunk.stage_ = {stage.first_layer, stage.last_layer, stage.recompute, {}};
  }
  static_cast<ChunkAtHand&>(*this) = chunks_.front();
  out_.stage = in.kind.stage;
  out_.device_type = in.kind.device_type;
  out_.shape = shape_of(in);
  out_.microbatches = (in.kind.sequences + in.kind.microbatch - 1) / in.kind.microbatch;
  out_.last_sequences = in.kind.sequences - std::max(0, out_.microbatches - 1) * in.kind.microbatch;
}

RankClass ClassBuilder::build() {
  for_each_chunk([&] { add_parts(); });
  add_word_part();
  for_each_chunk([&] { add_activations(); });
  for_each_chunk([&] { add_saved(); });
  add_temporaries();
  phase_ = &opening_;
  add_opening_phase();
  for_each_chunk([&] {
    phase_ = &forward_;
    add_forward_phase();
    phase_ = &backward_;
    if (training())
      add_backward_phase();
    else if (has_head())
      add_head_phase();
    close_waits();
  });
  const auto chunks = sites_of_chunks();
  join_chunks();
  phase_ = &closing_;
  add_closing_phase();
  out_.blocks = chunk_count() == 1
                    ? loops(in_.kind.order, training(), Phases{opening_, forward_, backward_, weights_, closing_, weights_by_layer()})
                    : chunk_loops(in_.kind.steps, chunks, opening_, closing_);
  lay_out(out_, {&forward_, &backward_, &weights_});
  return std::move(out_);
}

void ClassBuilder::enter(int chunk) {
  chunks_[static_cast<std::size_t>(chunk_)] = *this;
  static_cast<ChunkAtHand&>(*this) = chunks_[static_cast<std::size_t>(chunk)];
}

std::vector<ChunkSites> ClassBuilder::sites_of_chunks() {
  std::vector<ChunkSites> sites;
  for_each_chunk([&] {
    ChunkSites& own = sites.emplace_back();
    const auto add = [&](const std::vector<int>& phase, std::vector<int>& list) {
      for (int site : phase)
        if (out_.sites[static_cast<std::size_t>(site)].op != Op::receive) list.push_back(site);
    };
    add(forward_, own.forward);
    add(backward_, training() ? own.backward : own.forward);
    own.receive_activation = receive_activation_;
    own.receive_gradient = receive_gradient_;
  });
  return sites;
}

/// From here on phases are those of all chunks: there in the order of the layers, and back.
void ClassBuilder::join_chunks() {
  std::vector<int> forward, backward;
  for_each_chunk([&] {
    forward.insert(forward.end(), forward_.begin(), forward_.end());
    backward.insert(backward.begin(), backward_.begin(), backward_.end());
  });
  forward_ = std::move(forward);
  backward_ = std::move(backward);
}

ChunkCopies ClassBuilder::copies() const {
  if (!in_.kind.copies.empty()) return in_.kind.copies[static_cast<std::size_t>(chunk_)];
  const int pair = std::max(1, std::min(2, out_.microbatches)), in_flight = training() ? in_.kind.order.in_flight : 1;
  return {in_flight, std::max(in_flight, pair), in_place() ? 1 : pair};
}

int ClassBuilder::first_block() const { return std::max(stage_.first_layer, 1); }
int ClassBuilder::last_block() const { return std::min(stage_.last_layer - 1, in_.plan.model.blocks); }

int ClassBuilder::in_flight() const { return copies().in_flight; }

int ClassBuilder::until_weights(int copies) const {
  return splits() ? std::min(std::max(copies, out_.microbatches), copies + in_.kind.order.deferred) : copies;
}

int ClassBuilder::add_buffer(std::string name, Category category, Bytes size, int copies, bool persistent) {
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.category = category;
  buffer.size = size;
  buffer.copies = copies;
  buffer.persistent = persistent;
  buffer.stride = align_up(size, arena_alignment);
  out_.buffers.push_back(std::move(buffer));
  return static_cast<int>(out_.buffers.size()) - 1;
}

void ClassBuilder::add_parts() {
  std::vector<std::vector<int>> of_layer(static_cast<std::size_t>(stage_.last_layer - stage_.first_layer));
  for (int t : plan::tensors_of_stage(in_.tensors, stage_)) {
    const auto& tensor = in_.tensors[static_cast<std::size_t>(t)];
    if (tensor.tied_layer < 0) of_layer[static_cast<std::size_t>(tensor.layer - stage_.first_layer)].push_back(t);
  }
  for (int layer = stage_.first_layer; layer < stage_.last_layer; ++layer) {
    const auto& tensors = of_layer[static_cast<std::size_t>(layer - stage_.first_layer)];
    layer_parts_.push_back(tensors.empty() ? -1 : static_cast<int>(out_.parts.size()));
    if (!tensors.empty()) add_part(text("layer ", layer), tensors);
  }
}

/// The word table, which the embedding and the head share: after the parts of all layers.
void ClassBuilder::add_word_part() {
  std::vector<int> word;
  for (int t = 0; t < static_cast<int>(in_.tensors.size()); ++t)
    if (in_.tensors[static_cast<std::size_t>(t)].tied_layer >= 0) word.push_back(t);
  bool held = false;
  for_each_chunk([&] { held = held || has_embedding() || has_head(); });
  if (held && !word.empty()) {
    word_part_ = static_cast<int>(out_.parts.size());
    add_part("word", word);
  }
}

void ClassBuilder::add_part(const std::string& name, const std::vector<int>& list) {
  std::vector<int> tensors = list;
  // Where tokens are shared, what every member holds whole stands first: its gradients are summed over them in one piece. In every replica,
  // whatever its degree: what they sum is packed in the order of parts.
  if (in_.plan.sequence_parallel)
    std::ranges::stable_partition(tensors, [&](int t) { return in_.tensors[static_cast<std::size_t>(t)].axis == model::Axis::none; });
  Part part;
  part.name = name;
  for (int t : tensors) {
    const auto elements = plan::shard(in_.tensors[static_cast<std::size_t>(t)], in_.kind.tensor_parallel, in_.tensor_index).elements();
    part.slots.push_back({t, part.elements, elements});
    part.elements += (elements + slot_alignment - 1) / slot_alignment * slot_alignment;
  }
  add_persistent_buffers(part, static_cast<int>(out_.parts.size()));
  out_.parts.push_back(std::move(part));
}

void ClassBuilder::add_persistent_buffers(Part& part, int index) {
  const Bytes fp32 = part.elements * fp32_size;
  const bool half = in_.plan.precision != Precision::fp32, shared = shares_out(index);
  if (!half || !shared) part.parameters = add_buffer("parameters " + part.name, Category::parameters, fp32, 1, true);
  part.weights = half ? add_buffer("weights " + part.name, Category::parameters, part.elements * element_size(in_.plan.precision), 1, true)
                      : part.parameters;
  part.gradients = add_buffer("gradients " + part.name, Category::gradients, fp32, 1, true);
  if (shared) return add_shares(part, index);
  part.moment1 = add_buffer("moment1 " + part.name, Category::optimizer, fp32, 1, true);
  part.moment2 = add_buffer("moment2 " + part.name, Category::optimizer, fp32, 1, true);
}

// The activation entering each layer of the stage, and the one leaving its last. What is sent is needed until it is sent; what a
// backward pass reads is needed once for each microbatch in flight.
void ClassBuilder::add_activations() {
  const Bytes size = out_.shape.rows() * in_.plan.model.hidden * element_size(in_.plan.precision);
  const int pair = std::max(1, std::min(2, out_.microbatches));
  for (int layer = stage_.first_layer; layer <= stage_.last_layer; ++layer) {
    const bool received = layer == stage_.first_layer && !has_embedding();
    const bool sent = layer == stage_.last_layer;
    const bool exists = layer > 0 && !(sent && has_head());
    if (received && in_place()) {
      activations_.push_back(chunks_[static_cast<std::size_t>(chunk_ - 1)].activations_.back());
      continue;
    }
    const bool multiplied = in_.plan.model.norm == model::NormPlacement::post && in_.plan.model.is_block(layer);
    const int held = multiplied && !sent ? until_weights(in_flight()) : in_flight();
    const int copies = in_place() ? held : sent ? pair : received ? std::max(held, this->copies().received) : held;
    activations_.push_back(exists ? add_buffer(text("activation ", layer), Category::activations, size, copies) : -1);
  }
}

void ClassBuilder::add_saved() {
  const auto& model = in_.plan.model;
  // Computed again, a block's intermediates are alive within a backward pass: in turn, or side by side until all weights have their
  // gradients.
  const bool shared = (recomputes() && !splits()) || !training();
  const int copies = recomputes() ? until_weights(1) : until_weights(in_flight());
  for (int layer = stage_.first_layer; layer < stage_.last_layer; ++layer) {
    int buffer = -1, kept = -1, dropped = -1;
    if (model.is_block(layer)) {
      const Bytes size = block_layout().total;
      if (!shared)
        buffer = add_buffer(text("saved ", layer), Category::activations, size, copies);
      else if (shared_saved_ < 0)
        buffer = shared_saved_ = add_buffer("saved", Category::activations, size);
      else
        buffer = shared_saved_;
      const Bytes gradients = splits() ? model::kept_layout(model, out_.shape).total : Bytes{};
      if (gradients.count > 0) kept = add_buffer(text("kept ", layer), Category::activations, gradients, until_weights(1));
      if (splits() && drops()) dropped = add_buffer(text("dropped ", layer), Category::activations, block_layout().again, until_weights(1));
    } else if (model.is_embedding(layer)) {
      const Bytes size = model::embedding_saved(model, out_.shape);
      if (size.count > 0) buffer = add_buffer("saved 0", Category::activations, size, in_flight());
    } else {
      const Bytes size = model::head_layout(model, out_.shape).total;
      if (size.count > 0) buffer = head_saved_ = add_buffer("saved head", Category::activations, size);
    }
    saved_.push_back(buffer);
    kept_.push_back(kept);
    dropped_.push_back(dropped);
  }
}

Bytes ClassBuilder::workspace_size() const {
  using enum model::Operation;
  std::vector<model::Operation> operations;
  const auto use = [&](std::initializer_list<model::Operation> list) { operations.insert(operations.end(), list); };
  if (has_embedding()) use({embedding_forward, embedding_end_forward});
  if (first_block() <= last_block()) use({attention_forward, mlp_forward, block_end_forward});
  if (has_head()) use({head_forward, head_loss});
  if (training()) {
    if (has_embedding()) use({embedding_backward});
    if (first_block() <= last_block() && splits())
      use({mlp_begin_backward, mlp_backward_input, mlp_backward_weights, attention_begin_backward, attention_backward_input,
           attention_backward_weights, block_begin_backward});
    else if (first_block() <= last_block())
      use({mlp_begin_backward, mlp_backward, attention_begin_backward, attention_backward, block_begin_backward});
    if (has_head()) use({head_backward, head_end_backward});
  }
  Bytes most{};
  for (auto operation : operations) most = std::max(most, model::workspace(in_.plan.model, out_.shape, operation, in_.runtime.threads));
  return most;
}

void ClassBuilder::add_temporaries() {
  const auto& model = in_.plan.model;
  const std::int64_t tokens = out_.shape.tokens();
  const Bytes element = element_size(in_.plan.precision);
  scalars_ = add_buffer("scalars", Category::workspace, scalar::count * fp64_size, 1, true);
  totals_ = add_buffer("totals", Category::workspace, scalar::count * fp64_size, 1, true);
  if (in_.runtime.library_scratch.count > 0)
    out_.scratch = add_buffer("library scratch", Category::workspace, in_.runtime.library_scratch, 1, true);
  for_each_chunk([&] {
    if (tokens_ < 0 && (has_embedding() || has_head()))
      tokens_ =
          add_buffer("tokens", Category::activations, out_.shape.sequences * (std::int64_t{in_.plan.length} + 1) * Bytes{4}, in_flight());
  });
  const Bytes partial = tokens * std::max(model.hidden, model.embedding_width) * element;
  partial_ = add_buffer("partial", Category::workspace, partial);
  const Bytes rows = out_.shape.rows() * model.hidden * element;
  for_each_chunk([&] {
    if (!training()) return;
    gradient_ = in_place() && chunk_ > 0 ? chunks_.front().gradient_
                                         : add_buffer("gradient" + of_chunk(), Category::activations, rows, copies().gradients);
    if (recomputes() && model.norm == model::NormPlacement::post && discard_ < 0)
      discard_ = add_buffer("discarded activation", Category::workspace, rows);
  });
  for_each_chunk([&] {
    if (gathered_rows_ < 0 && shares() && (training() || has_head()))
      gathered_rows_ = add_buffer("gathered rows", Category::communication, partial);
    if (partial_ahead_ < 0 && shares() && splits() && first_block() <= last_block()) {
      const Bytes all_rows = tokens * model.hidden * element;
      partial_ahead_ = add_buffer("partial ahead", Category::communication, all_rows);
      rows_ahead_ = add_buffer("gathered rows ahead", Category::communication, all_rows);
    }
    if (again_ < 0 && drops() && first_block() <= last_block()) again_ = add_buffer("dropped", Category::activations, block_layout().again);
    if (!has_head()) return;
    const std::int64_t row = 3 * 4;
    logits_ = add_buffer("logits", Category::workspace, tokens * model::logits_pitch(model, out_.shape) * fp32_size);
    stats_ = add_buffer("stats", Category::workspace, {tokens * row});
    gathered_ = in_.kind.tensor_parallel > 1
                    ? add_buffer("gathered stats", Category::communication, {tokens * row * in_.kind.tensor_parallel})
                    : stats_;
  });
  Bytes workspace;
  for_each_chunk([&] { workspace = std::max(workspace, workspace_size()); });
  if (workspace.count > 0) workspace_ = add_buffer("workspace", Category::workspace, workspace);
  if (slots_.tensor >= 0)
    staging_ = add_buffer(
        "staging", Category::communication,
        shares() ? reduce_scatter_staging(tokens, std::max(model.hidden, model.embedding_width) * element, in_.kind.tensor_parallel)
                 : all_reduce_staging(partial, element, in_.kind.tensor_parallel));
  Bytes staging = all_reduce_staging(scalar::count * fp64_size, fp64_size, plan::rank_count(in_.plan));
  if (training()) staging = std::max(staging, sum_staging());
  if (training() && shares())  // of gradients that every member of the tensor-parallel group holds whole
    for (const Part& part : out_.parts)
      staging = std::max(staging, all_reduce_staging(part.elements * fp32_size, fp32_size, in_.kind.tensor_parallel));
  if (training()) add_packed_buffers();
  if (staging.count > 0) sum_staging_ = add_buffer("sum staging", Category::communication, staging);
}

}  // namespace flotilla::program
