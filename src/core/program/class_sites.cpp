#include "class_sites.hpp"

#include "flotilla/base/error.hpp"

namespace flotilla::program {

using model::Operation;

namespace {

/// In place, one buffer after the other; the next compute site waits for all of them.
void gather_rows(ClassDraft& draft, int layer, std::initializer_list<int> buffers, int producer, bool backward) {
  const auto& model = draft.in.plan.model;
  const Bytes token = (model.is_block(layer) ? model.hidden : model.embedding_width) * element_size(draft.in.plan.precision);
  const std::int64_t sequence = draft.in.plan.length * token.count;
  for (int buffer : buffers) {
    Site site;
    site.name = text("gather ", draft.out.buffers[at(buffer)].name, " ", layer, backward ? " backward" : "");
    site.op = Op::all_gather;
    site.queue = Queue::reduce;
    site.layer = layer;
    site.backward = backward;
    site.group = draft.slots.tensor;
    site.token = token;
    site.bytes_per_sequence = {(sequence + draft.in.kind.tensor_parallel - 1) / draft.in.kind.tensor_parallel};
    site.accesses = {{Role::message, buffer, Mode::update}};
    site.waits = {{producer, 0}};
    let_next_wait_for(draft, add_site(draft, std::move(site)));
  }
}

}  // namespace

int add_site(ClassDraft& draft, Site site) {
  const int index = static_cast<int>(draft.out.sites.size());
  draft.out.sites.push_back(std::move(site));
  draft.phase->push_back(index);
  return index;
}

void let_next_wait_for(ClassDraft& draft, int event) {
  if (event >= 0) draft.next_waits.push_back({event, 0});
}

int add_compute(ClassDraft& draft, const ChunkDraft& chunk, Operation operation, int layer, std::vector<Access> accesses, bool recompute) {
  Site site;
  site.name = text(model::to_string(operation), " ", layer, recompute && operation != Operation::block_again ? " again" : "");
  site.op = Op::compute;
  site.operation = operation;
  site.layer = layer;
  site.part = part_of_layer(chunk, layer);
  site.backward = (draft.phase == &chunk.backward || draft.phase == &chunk.weights) && !recompute && operation != Operation::head_forward &&
                  operation != Operation::head_loss && operation != Operation::head_begin_forward;
  site.recompute = recompute;
  site.accesses = std::move(accesses);
  if (draft.buffers.workspace >= 0) site.accesses.push_back({Role::workspace, draft.buffers.workspace, Mode::write});
  site.waits = std::move(draft.next_waits);
  draft.next_waits.clear();
  return add_site(draft, std::move(site));
}

std::vector<Access> weights_of(const ClassDraft& draft, const ChunkDraft& chunk, int layer, bool gradients) {
  const int part = part_of_layer(chunk, layer);
  if (part < 0) return {};
  const auto& p = draft.out.parts[at(part)];
  std::vector<Access> list{{Role::weights, p.weights, Mode::read}};
  if (gradients) list.push_back({Role::gradients, p.gradients, Mode::update});
  return list;
}

std::vector<Access> word_table(const ClassDraft& draft, bool gradients) {
  if (draft.word_part < 0) return {};
  const auto& p = draft.out.parts[at(draft.word_part)];
  std::vector<Access> list{{Role::word_weights, p.weights, Mode::read}};
  if (gradients) list.push_back({Role::word_gradients, p.gradients, Mode::update});
  return list;
}

std::vector<Access> joined(std::vector<Access> a, std::initializer_list<std::vector<Access>> more) {
  for (const auto& list : more) a.insert(a.end(), list.begin(), list.end());
  std::erase_if(a, [](const Access& access) { return access.buffer < 0; });
  return a;
}

int sum_partial(ClassDraft& draft, int layer, int producer, bool backward) {
  if (draft.slots.tensor < 0) return -1;
  const auto& model = draft.in.plan.model;
  const int width = model.is_block(layer) ? model.hidden : model.embedding_width;
  Site site;
  site.name = text(shares_tokens(draft) ? "reduce-scatter " : "all-reduce ", layer, backward ? " backward" : "");
  site.op = shares_tokens(draft) ? Op::reduce_scatter : Op::all_reduce;
  site.queue = Queue::reduce;
  site.layer = layer;
  site.backward = backward;
  site.group = draft.slots.tensor;
  if (shares_tokens(draft)) site.token = width * element_size(draft.in.plan.precision);
  site.bytes_per_sequence = std::int64_t{draft.in.plan.length} * width * element_size(draft.in.plan.precision);
  site.accesses = {{Role::reduced, draft.buffers.partial, Mode::update}, {Role::staging, draft.buffers.staging, Mode::write}};
  site.waits = {{producer, 0}};
  return add_site(draft, std::move(site));
}

void add_begin(ClassDraft& draft, const ChunkDraft& chunk, model::Operation operation, int layer, std::vector<Access> accesses,
               bool recompute, std::initializer_list<int> gathered) {
  const bool backward = draft.phase != &chunk.forward && !recompute && operation != model::Operation::head_begin_forward;
  const int producer = add_compute(draft, chunk, operation, layer, std::move(accesses), recompute);
  gather_rows(draft, layer, gathered, producer, backward);
}

}  // namespace flotilla::program
