#include "messages.hpp"

#include <algorithm>

#include "class_buffers.hpp"
#include "class_sites.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::program {
namespace {

constexpr int activation_channel = 0, gradient_channel = 1, channels_per_link = 2;

const Parcels& parcels_of(const ClassDraft& draft, const ChunkDraft& chunk) { return draft.in.kind.parcels[at(chunk.chunk)]; }

bool touches(const Site& site, int buffer) {
  return std::any_of(site.accesses.begin(), site.accesses.end(), [&](const Access& a) { return a.buffer == buffer; });
}

bool writes(const Site& site, int buffer) {
  return std::any_of(site.accesses.begin(), site.accesses.end(),
                     [&](const Access& a) { return a.buffer == buffer && a.mode != Mode::read; });
}

/// The last compute site of the phases that touches the buffer, or -1.
int last_compute_touching(const std::vector<Site>& sites, std::initializer_list<const std::vector<int>*> phases, int buffer) {
  int found = -1;
  for (const auto* phase : phases)
    for (int s : *phase)
      if (sites[at(s)].queue == Queue::compute && touches(sites[at(s)], buffer)) found = s;
  return found;
}

/// An activation or its gradient, of `layer`'s input, to or from a neighbouring stage.
Site boundary_site(const ClassDraft& draft, const ChunkDraft& chunk, Op op, int layer, const Parcel& parcel, bool backward) {
  const Bytes token = draft.in.plan.model.hidden * element_size(draft.in.plan.precision);
  Site site;
  site.name = text(op == Op::send ? "send " : "receive ", backward ? "gradient" : "activation", chunk_suffix(draft, chunk));
  site.op = op;
  site.queue = op == Op::send ? Queue::send : backward ? Queue::receive_back : Queue::receive;
  site.layer = layer;
  site.backward = backward;
  site.peer = parcel.peer;
  const int before =
      layer == chunk.stage.first_layer ? stage_index(draft, chunk) - 1 : stage_index(draft, chunk);  // the stage on the earlier side
  site.channel = channels_per_link * (before / plan::own_stages(draft.in.plan)) + (backward ? gradient_channel : activation_channel);
  if (parcel.tokens == 0) site.bytes_per_sequence = std::int64_t{draft.in.plan.length / parcel.pieces} * token;
  site.own_piece = parcel.tokens == 0 && parcel.pieces > 1 && !shares_tokens(draft);
  site.bytes = parcel.tokens * token;
  site.offset = parcel.first * token;
  site.runs = parcel.runs;
  site.accesses = {{Role::message, backward ? chunk.gradient : activation_into(chunk, layer), op == Op::send ? Mode::read : Mode::write}};
  return site;
}

/// Every member of the tensor-parallel group has received its own piece of the microbatch's tokens.
int add_gather(ClassDraft& draft, const ChunkDraft& chunk, const std::vector<int>& receives, int layer, bool backward) {
  const std::int64_t sequence =
      std::int64_t{draft.in.plan.length} * draft.in.plan.model.hidden * element_size(draft.in.plan.precision).count;
  Site site;
  site.name = backward ? "gather gradient" : "gather activation";
  site.op = Op::all_gather;
  site.queue = Queue::reduce;
  site.layer = layer;
  site.backward = backward;
  site.group = draft.slots.tensor;
  site.bytes_per_sequence = {(sequence + draft.in.kind.tensor_parallel - 1) / draft.in.kind.tensor_parallel};
  site.accesses = {{Role::message, backward ? chunk.gradient : activation_into(chunk, layer), Mode::write}};
  for (int receive : receives) site.waits.push_back({receive, 0});
  return add_site(draft, std::move(site));
}

std::vector<int> add_receives(ClassDraft& draft, const ChunkDraft& chunk, const std::vector<Parcel>& parcels, int layer, bool backward) {
  std::vector<int> sites;
  for (const Parcel& parcel : parcels) sites.push_back(add_site(draft, boundary_site(draft, chunk, Op::receive, layer, parcel, backward)));
  if (draft.slots.tensor >= 0 && !shares_tokens(draft))
    sites.push_back(add_gather(draft, chunk, sites, layer, backward));  // also where a member's own piece is empty
  return sites;
}

std::vector<int> add_sends(ClassDraft& draft, const ChunkDraft& chunk, const std::vector<Parcel>& parcels, int layer, bool backward,
                           int producer) {
  std::vector<int> sends;
  for (const Parcel& parcel : parcels) {
    auto site = boundary_site(draft, chunk, Op::send, layer, parcel, backward);
    site.waits = {{producer, 0}};
    sends.push_back(add_site(draft, std::move(site)));
  }
  return sends;
}

void close_activation_waits(ClassDraft& draft, const ChunkDraft& chunk) {
  const auto site = [&](int s) -> Site& { return draft.out.sites[at(s)]; };
  const auto copies = [&](int buffer) { return draft.out.buffers[at(buffer)].copies; };
  const int received = chunk.receive_activation.empty() ? -1 : activation_into(chunk, chunk.stage.first_layer);
  const int reader =
      received < 0 ? -1 : last_compute_touching(draft.out.sites, {&chunk.forward, &chunk.backward, &chunk.weights}, received);
  for (int receive : chunk.receive_activation) {
    if (reader >= 0) site(receive).waits.push_back({reader, copies(received)});
    for (int send : chunk.send_activation)  // a stage without layers of its own between would forward the very buffer it received
      if (touches(site(send), received)) site(receive).waits.push_back({send, copies(received)});
  }
  for (int send : chunk.send_activation)
    for (const auto& wait : std::vector<Wait>{site(send).waits})
      site(wait.site).waits.push_back({send, copies(activation_into(chunk, chunk.stage.last_layer))});
}

void close_gradient_waits(ClassDraft& draft, const ChunkDraft& chunk) {
  const auto site = [&](int s) -> Site& { return draft.out.sites[at(s)]; };
  const int copies = chunk.gradient < 0 ? 1 : draft.out.buffers[at(chunk.gradient)].copies;
  const auto after_sends = [&](int s) {
    for (int send : chunk.send_gradient) site(s).waits.push_back({send, copies});
  };
  for (int receive : chunk.receive_gradient) {
    site(receive).waits.push_back({last_compute_touching(draft.out.sites, {&chunk.backward}, chunk.gradient), copies});
    after_sends(receive);
  }
  // Who shares tokens may have no part in a microbatch: nothing is received then, and the first pass itself waits.
  if (!chunk.receive_gradient.empty() && !shares_tokens(draft)) return;
  const auto first =
      std::ranges::find_if(chunk.backward, [&](int s) { return site(s).queue == Queue::compute && writes(site(s), chunk.gradient); });
  if (first != chunk.backward.end()) after_sends(*first);
}

}  // namespace

void let_next_wait_for_arrival(ClassDraft& draft, const std::vector<int>& sites) {
  if (draft.slots.tensor >= 0 && !shares_tokens(draft) && !sites.empty())
    let_next_wait_for(draft, sites.back());
  else
    for (int site : sites) let_next_wait_for(draft, site);
}

void add_receive_activation(ClassDraft& draft, ChunkDraft& chunk) {
  if (has_embedding(chunk) || in_place(draft)) return;
  chunk.receive_activation = add_receives(draft, chunk, parcels_of(draft, chunk).activations_in, chunk.stage.first_layer, false);
  let_next_wait_for_arrival(draft, chunk.receive_activation);
}

void add_receive_gradient(ClassDraft& draft, ChunkDraft& chunk) {
  if (has_head(draft, chunk) || in_place(draft)) return;
  chunk.receive_gradient = add_receives(draft, chunk, parcels_of(draft, chunk).gradients_in, chunk.stage.last_layer, true);
}

void add_send_activation(ClassDraft& draft, ChunkDraft& chunk) {
  const auto& parcels = parcels_of(draft, chunk).activations_out;
  if (parcels.empty()) return;
  chunk.send_activation =
      add_sends(draft, chunk, parcels, chunk.stage.last_layer, false,
                last_compute_touching(draft.out.sites, {&chunk.forward}, activation_into(chunk, chunk.stage.last_layer)));
}

void add_send_gradient(ClassDraft& draft, ChunkDraft& chunk) {
  const auto& parcels = parcels_of(draft, chunk).gradients_out;
  if (parcels.empty()) return;
  chunk.send_gradient = add_sends(draft, chunk, parcels, chunk.stage.first_layer, true,
                                  last_compute_touching(draft.out.sites, {&chunk.backward}, chunk.gradient));
}

void close_waits(ClassDraft& draft, const ChunkDraft& chunk) {
  close_activation_waits(draft, chunk);
  if (is_training(draft)) close_gradient_waits(draft, chunk);
}

}  // namespace flotilla::program
