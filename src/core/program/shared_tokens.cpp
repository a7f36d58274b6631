// Sequence parallelism: between products each member of a tensor-parallel group holds its part of the tokens (model/operations.hpp).
#include "class_builder.hpp"
#include "flotilla/base/error.hpp"
#include "index.hpp"

namespace flotilla::program {
namespace {

}  // namespace

/// An operation on this member's rows, and the gathering of what the next one needs of everybody's.
void ClassBuilder::add_begin(model::Operation operation, int layer, std::vector<Access> accesses, bool recompute,
                             std::initializer_list<int> gathered) {
  const bool backward = phase_ != &forward_ && !recompute && operation != model::Operation::head_begin_forward;
  const int producer = add_compute(operation, layer, std::move(accesses), recompute);
  gather_rows(layer, gathered, producer, backward);
}

/// In place, one buffer after the other; the next compute site waits for all of them.
void ClassBuilder::gather_rows(int layer, std::initializer_list<int> buffers, int producer, bool backward) {
  const auto& model = in_.plan.model;
  const Bytes token = (model.is_block(layer) ? model.hidden : model.embedding_width) * element_size(in_.plan.precision);
  const std::int64_t sequence = in_.plan.length * token.count;
  for (int buffer : buffers) {
    Site site;
    site.name = text("gather ", out_.buffers[at(buffer)].name, " ", layer, backward ? " backward" : "");
    site.op = Op::all_gather;
    site.queue = Queue::reduce;
    site.layer = layer;
    site.backward = backward;
    site.group = slots_.tensor;
    site.token = token;
    site.bytes_per_sequence = {(sequence + in_.kind.tensor_parallel - 1) / in_.kind.tensor_parallel};
    site.accesses = {{Role::message, buffer, Mode::update}};
    site.waits = {{producer, 0}};
    consume(add_site(std::move(site)));
  }
}

/// Gradients of norms and the like are those of each member's own tokens: their sum over the group, before replicas sum theirs.
int ClassBuilder::add_whole_sum(int part, std::int64_t elements) {
  Site site;
  site.name = "sum over tokens " + out_.parts[at(part)].name;
  site.op = Op::all_reduce;
  site.queue = Queue::sum;
  site.part = part;
  site.per_microbatch = false;
  site.backward = true;
  site.group = slots_.tensor;
  site.bytes = elements * Bytes{4};
  site.accesses = {{Role::reduced, out_.parts[at(part)].gradients, Mode::update}, {Role::staging, sum_staging_, Mode::write}};
  site.waits = after_backward(part);
  return add_site(std::move(site));
}

/// Whole tensors stand first in their parts. Parts from last to first, as backward finishes them; the word table has none.
void ClassBuilder::add_whole_sums() {
  whole_sums_.assign(out_.parts.size(), -1);
  for (int part = static_cast<int>(out_.parts.size()) - 1; part >= 0; --part) {
    std::int64_t elements = 0;
    for (const auto& slot : out_.parts[at(part)].slots)
      if (in_.tensors[at(slot.tensor)].axis == model::Axis::none) elements = slot.offset + slot.elements;
    if (elements > 0) whole_sums_[at(part)] = add_whole_sum(part, elements);
  }
}

}  // namespace flotilla::program
