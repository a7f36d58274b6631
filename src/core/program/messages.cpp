// What a class sends to the stages beside it and receives from them, and what their buffers wait for.
#include <algorithm>

#include "class_builder.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::program {

namespace {

constexpr int activation_channel = 0, gradient_channel = 1, channels_per_link = 2;

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
      if (sites[static_cast<std::size_t>(s)].queue == Queue::compute && touches(sites[static_cast<std::size_t>(s)], buffer)) found = s;
  return found;
}

}  // namespace

/// An activation or its gradient, of `layer`'s input, to or from a neighbouring stage.
Site ClassBuilder::message(Op op, int layer, const Parcel& parcel, bool backward) const {
  const Bytes token = in_.plan.model.hidden * element_size(in_.plan.precision);
  Site site;
  site.name = text(op == Op::send ? "send " : "receive ", backward ? "gradient" : "activation", of_chunk());
  site.op = op;
  site.queue = op == Op::send ? Queue::send : backward ? Queue::receive_back : Queue::receive;
  site.layer = layer;
  site.backward = backward;
  site.peer = parcel.peer;
  const int before = layer == stage_.first_layer ? stage_index() - 1 : stage_index();  // the stage on the earlier side
  site.channel = channels_per_link * (before / plan::own_stages(in_.plan)) + (backward ? gradient_channel : activation_channel);
  if (parcel.tokens == 0) site.bytes_per_sequence = std::int64_t{in_.plan.length / parcel.pieces} * token;
  site.own_piece = parcel.tokens == 0 && parcel.pieces > 1 && !shares();
  site.bytes = parcel.tokens * token;
  site.offset = parcel.first * token;
  site.runs = parcel.runs;
  site.accesses = {{Role::message, backward ? gradient_ : activation(layer), op == Op::send ? Mode::read : Mode::write}};
  return site;
}

std::vector<int> ClassBuilder::add_receives(const std::vector<Parcel>& parcels, int layer, bool backward) {
  std::vector<int> sites;
  for (const Parcel& parcel : parcels) sites.push_back(add_site(message(Op::receive, layer, parcel, backward)));
  if (slots_.tensor >= 0 && !shares()) sites.push_back(add_gather(sites, layer, backward));  // also where a member's own piece is empty
  return sites;
}

/// Every member of the tensor-parallel group has received its own piece of the microbatch's tokens.
int ClassBuilder::add_gather(const std::vector<int>& receives, int layer, bool backward) {
  const std::int64_t sequence = std::int64_t{in_.plan.length} * in_.plan.model.hidden * element_size(in_.plan.precision).count;
  Site site;
  site.name = backward ? "gather gradient" : "gather activation";
  site.op = Op::all_gather;
  site.queue = Queue::reduce;
  site.layer = layer;
  site.backward = backward;
  site.group = slots_.tensor;
  site.bytes_per_sequence = {(sequence + in_.kind.tensor_parallel - 1) / in_.kind.tensor_parallel};
  site.accesses = {{Role::message, backward ? gradient_ : activation(layer), Mode::write}};
  for (int receive : receives) site.waits.push_back({receive, 0});
  return add_site(std::move(site));
}

void ClassBuilder::consume_arrival(const std::vector<int>& sites) {
  if (slots_.tensor >= 0 && !shares() && !sites.empty())
    consume(sites.back());
  else
    for (int site : sites) consume(site);
}

void ClassBuilder::add_receive_activation() {
  if (has_embedding() || in_place()) return;
  receive_activation_ = add_receives(parcels().activations_in, stage_.first_layer, false);
  consume_arrival(receive_activation_);
}

void ClassBuilder::add_receive_gradient() {
  if (has_head() || in_place()) return;
  receive_gradient_ = add_receives(parcels().gradients_in, stage_.last_layer, true);
}

std::vector<int> ClassBuilder::add_sends(const std::vector<Parcel>& parcels, int layer, bool backward, int producer) {
  std::vector<int> sends;
  for (const Parcel& parcel : parcels) {
    auto site = message(Op::send, layer, parcel, backward);
    site.waits = {{producer, 0}};
    sends.push_back(add_site(std::move(site)));
  }
  return sends;
}

void ClassBuilder::add_send_activation() {
  const auto& parcels = this->parcels().activations_out;
  if (parcels.empty()) return;
  send_activation_ =
      add_sends(parcels, stage_.last_layer, false, last_compute_touching(out_.sites, {&forward_}, activation(stage_.last_layer)));
}

void ClassBuilder::add_send_gradient() {
  const auto& parcels = this->parcels().gradients_out;
  if (parcels.empty()) return;
  send_gradient_ = add_sends(parcels, stage_.first_layer, true, last_compute_touching(out_.sites, {&backward_}, gradient_));
}

// What a queue must not overwrite before another queue is done with it: the same instance, `copies` microbatches ago.
void ClassBuilder::close_waits() {
  close_activation_waits();
  if (training()) close_gradient_waits();
}

void ClassBuilder::close_activation_waits() {
  const auto site = [&](int s) -> Site& { return out_.sites[static_cast<std::size_t>(s)]; };
  const auto copies = [&](int buffer) { return out_.buffers[static_cast<std::size_t>(buffer)].copies; };
  const int received = receive_activation_.empty() ? -1 : activation(stage_.first_layer);
  const int reader = received < 0 ? -1 : last_compute_touching(out_.sites, {&forward_, &backward_, &weights_}, received);
  for (int receive : receive_activation_) {
    if (reader >= 0) site(receive).waits.push_back({reader, copies(received)});
    for (int send : send_activation_)  // a stage without layers of its own between would forward the very buffer it received
      if (touches(site(send), received)) site(receive).waits.push_back({send, copies(received)});
  }
  for (int send : send_activation_)
    for (const auto& wait : std::vector<Wait>{site(send).waits})
      site(wait.site).waits.push_back({send, copies(activation(stage_.last_layer))});
}

void ClassBuilder::close_gradient_waits() {
  const auto site = [&](int s) -> Site& { return out_.sites[static_cast<std::size_t>(s)]; };
  const int copies = gradient_ < 0 ? 1 : out_.buffers[static_cast<std::size_t>(gradient_)].copies;
  const auto after_sends = [&](int s) {
    for (int send : send_gradient_) site(s).waits.push_back({send, copies});
  };
  for (int receive : receive_gradient_) {
    site(receive).waits.push_back({last_compute_touching(out_.sites, {&backward_}, gradient_), copies});
    after_sends(receive);
  }
  // Who shares tokens may have no part in a microbatch: nothing is received then, and the first pass itself waits.
  if (!receive_gradient_.empty() && !shares()) return;
  const auto first = std::ranges::find_if(backward_, [&](int s) { return site(s).queue == Queue::compute && writes(site(s), gradient_); });
  if (first != backward_.end()) after_sends(*first);
}

}  // namespace flotilla::program
