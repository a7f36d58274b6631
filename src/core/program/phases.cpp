// The sites of a class, phase by phase. A site that another queue's site feeds waits for it explicitly; sites of the compute queue follow
// one another by queue order alone.
#include <algorithm>

#include "class_builder.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::program {

using model::Operation;

int ClassBuilder::add_site(Site site) {
  const int index = static_cast<int>(out_.sites.size());
  out_.sites.push_back(std::move(site));
  phase_->push_back(index);
  return index;
}

void ClassBuilder::consume(int event) {
  if (event >= 0) next_waits_.push_back({event, 0});
}

int ClassBuilder::add_compute(Operation operation, int layer, std::vector<Access> accesses, bool recompute) {
  Site site;
  site.name = text(model::to_string(operation), " ", layer, recompute && operation != Operation::block_again ? " again" : "");
  site.op = Op::compute;
  site.operation = operation;
  site.layer = layer;
  site.part = part_of(layer);
  site.backward = (phase_ == &backward_ || phase_ == &weights_) && !recompute && operation != Operation::head_forward &&
                  operation != Operation::head_loss && operation != Operation::head_begin_forward;
  site.recompute = recompute;
  site.accesses = std::move(accesses);
  if (workspace_ >= 0) site.accesses.push_back({Role::workspace, workspace_, Mode::write});
  site.waits = std::move(next_waits_);
  next_waits_.clear();
  return add_site(std::move(site));
}

std::vector<Access> ClassBuilder::weights(int layer, bool gradients) const {
  const int part = part_of(layer);
  if (part < 0) return {};
  const auto& p = out_.parts[static_cast<std::size_t>(part)];
  std::vector<Access> list{{Role::weights, p.weights, Mode::read}};
  if (gradients) list.push_back({Role::gradients, p.gradients, Mode::update});
  return list;
}

/// Of the table that both ends use. One that is not shared is among its layer's tensors.
std::vector<Access> ClassBuilder::word(bool gradients) const {
  if (word_part_ < 0) return {};
  const auto& p = out_.parts[static_cast<std::size_t>(word_part_)];
  std::vector<Access> list{{Role::word_weights, p.weights, Mode::read}};
  if (gradients) list.push_back({Role::word_gradients, p.gradients, Mode::update});
  return list;
}

std::vector<Access> joined(std::vector<Access> a, std::initializer_list<std::vector<Access>> more) {
  for (const auto& list : more) a.insert(a.end(), list.begin(), list.end());
  std::erase_if(a, [](const Access& access) { return access.buffer < 0; });
  return a;
}

int ClassBuilder::sum_partial(int layer, int producer, bool backward) {
  if (slots_.tensor < 0) return -1;
  const auto& model = in_.plan.model;
  const int width = model.is_block(layer) ? model.hidden : model.embedding_width;
  Site site;
  site.name = text(shares() ? "reduce-scatter " : "all-reduce ", layer, backward ? " backward" : "");
  site.op = shares() ? Op::reduce_scatter : Op::all_reduce;
  site.queue = Queue::reduce;
  site.layer = layer;
  site.backward = backward;
  site.group = slots_.tensor;
  if (shares()) site.token = width * element_size(in_.plan.precision);
  site.bytes_per_sequence = std::int64_t{in_.plan.length} * width * element_size(in_.plan.precision);
  site.accesses = {{Role::reduced, partial_, Mode::update}, {Role::staging, staging_, Mode::write}};
  site.waits = {{producer, 0}};
  return add_site(std::move(site));
}

void ClassBuilder::add_opening_phase() {
  Site scalars;
  scalars.name = "zero scalars";
  scalars.op = Op::zero;
  scalars.per_microbatch = false;
  scalars.accesses = {{Role::scalars, scalars_, Mode::write}};
  add_site(std::move(scalars));
  for (std::size_t p = 0; training() && p < out_.parts.size(); ++p) {
    Site site;
    site.name = "zero gradients " + out_.parts[p].name;
    site.op = Op::zero;
    site.part = static_cast<int>(p);
    site.per_microbatch = false;
    site.accesses = {{Role::gradients, out_.parts[p].gradients, Mode::write}};
    add_site(std::move(site));
  }
}

void ClassBuilder::add_forward_phase() {
  const bool loaded_before = in_place() && chunk_ > 0;  // by the chunk of the embedding
  if ((has_embedding() || has_head()) && !loaded_before) {
    Site load;
    load.name = "load tokens";
    load.op = Op::load_tokens;
    load.accesses = {{Role::tokens, tokens_, Mode::write}};
    add_site(std::move(load));
  }
  add_receive_activation();
  if (has_embedding()) add_embedding_forward();
  for (int layer = first_block(); layer <= last_block(); ++layer) add_block_forward(layer, false);
  add_send_activation();
}

void ClassBuilder::add_embedding_forward() {
  const int lookup = add_compute(Operation::embedding_forward, 0,
                                 joined({{Role::tokens, tokens_, Mode::read}, {Role::partial, partial_, Mode::write}},
                                        {in_.plan.model.tied_head ? word(false) : weights(0, false)}));
  consume(sum_partial(0, lookup, false));
  add_compute(
      Operation::embedding_end_forward, 0,
      joined({{Role::partial, partial_, Mode::read}, {Role::saved, saved(0), Mode::write}, {Role::output, activation(1), Mode::write}},
             {weights(0, false)}));
}

void ClassBuilder::add_block_forward(int layer, bool recompute) {
  const int input = activation(layer), kept = saved(layer);
  const auto operands = [&](Mode mode) {
    return joined(
        {{Role::input, input, Mode::read}, {Role::saved, kept, mode}, {Role::partial, partial_, mode}, {Role::again, again(), mode}},
        {weights(layer, false)});
  };
  if (shares()) add_begin(Operation::attention_begin_forward, layer, operands(Mode::write), recompute, {partial_});
  const int attention = add_compute(Operation::attention_forward, layer, operands(shares() ? Mode::update : Mode::write), recompute);
  consume(sum_partial(layer, attention, false));
  if (shares()) add_begin(Operation::mlp_begin_forward, layer, operands(Mode::update), recompute, {partial_});
  const int mlp = add_compute(Operation::mlp_forward, layer, operands(Mode::update), recompute);
  // Again in backward, a pre-norm block has now all it keeps; a post-norm one still needs its last norm's input.
  if (recompute && in_.plan.model.norm == model::NormPlacement::pre) return;
  consume(sum_partial(layer, mlp, false));
  add_compute(Operation::block_end_forward, layer,
              joined({{Role::partial, partial_, Mode::read},
                      {Role::saved, kept, Mode::update},
                      {Role::again, again(), Mode::read},
                      {Role::output, recompute ? discard_ : activation(layer + 1), Mode::write}},
                     {weights(layer, false)}),
              recompute);
}

void ClassBuilder::add_head_phase() {
  const int head = in_.plan.model.layers() - 1;
  if (shares())
    add_begin(Operation::head_begin_forward, head,
              joined({{Role::input, activation(head), Mode::read},
                      {Role::saved, head_saved_, Mode::write},
                      {Role::gathered, gathered_rows_, Mode::write}},
                     {weights(head, false)}),
              false, {gathered_rows_});
  const int forward = add_compute(Operation::head_forward, head,
                                  joined({{Role::input, activation(head), Mode::read},
                                          {Role::tokens, tokens_, Mode::read},
                                          {Role::gathered, gathered_rows_, Mode::read},
                                          {Role::saved, head_saved_, shares() ? Mode::read : Mode::write},
                                          {Role::logits, logits_, Mode::write},
                                          {Role::stats, stats_, Mode::write}},
                                         {weights(head, false), word(false)}));
  if (slots_.tensor >= 0) {
    Site gather;
    gather.name = "gather stats";
    gather.op = Op::all_gather;
    gather.queue = Queue::reduce;
    gather.layer = head;
    gather.group = slots_.tensor;
    gather.bytes_per_sequence = std::int64_t{in_.plan.length} * Bytes{3 * 4};
    gather.accesses = {{Role::stats, stats_, Mode::read}, {Role::gathered_stats, gathered_, Mode::write}};
    gather.waits = {{forward, 0}};
    consume(add_site(std::move(gather)));
  }
  add_compute(
      Operation::head_loss, head,
      joined({{Role::gathered_stats, gathered_, Mode::read}, {Role::tokens, tokens_, Mode::read}, {Role::scalars, scalars_, Mode::update}},
             {}));
}

void ClassBuilder::add_backward_phase() {
  add_receive_gradient();
  if (has_head()) {
    add_head_phase();
    const int head = in_.plan.model.layers() - 1;
    const bool whole = !splits();
    const int backward = add_compute(whole ? Operation::head_backward : Operation::head_backward_input, head,
                                     joined({{Role::logits, logits_, Mode::update},
                                             {Role::gathered_stats, gathered_, Mode::read},
                                             {Role::tokens, tokens_, Mode::read},
                                             {Role::input, whole ? activation(head) : -1, Mode::read},
                                             {Role::gathered, gathered_rows_, Mode::read},
                                             {Role::saved, whole ? head_saved_ : -1, Mode::read},
                                             {Role::partial, partial_, Mode::write}},
                                            {weights(head, whole && !in_.plan.model.tied_head), word(whole)}));
    consume(sum_partial(head, backward, true));
    add_compute(Operation::head_end_backward, head,
                joined({{Role::partial, partial_, Mode::read},
                        {Role::saved, head_saved_, Mode::read},
                        {Role::input, activation(head), Mode::read},
                        {Role::gradient, gradient_, Mode::write}},
                       {weights(head, true)}));
  }
  for (int layer = last_block(); layer >= first_block(); --layer) {
    if (recomputes()) add_block_forward(layer, true);
    if (drops()) add_block_again(layer);
    if (layer == last_block() && !has_head()) consume_arrival(receive_gradient_);
    add_block_backward(layer);
  }
  if (has_embedding()) {
    if (first_block() > last_block() && !has_head()) consume_arrival(receive_gradient_);
    if (shares())
      add_begin(
          Operation::embedding_begin_backward, 0,
          joined({{Role::gradient, gradient_, Mode::update}, {Role::saved, saved(0), Mode::read}, {Role::partial, partial_, Mode::write}},
                 {weights(0, true)}),
          false, {partial_});
    add_compute(Operation::embedding_backward, 0,
                joined({{Role::gradient, gradient_, Mode::update},
                        {Role::tokens, tokens_, Mode::read},
                        {Role::saved, saved(0), Mode::read},
                        {Role::partial, shares() ? partial_ : -1, Mode::read}},
                       {weights(0, true), word(true)}));
  }
  add_send_gradient();
  if (splits()) add_weights_halves();
}

/// Before the gradient is waited for: it does not need it.
void ClassBuilder::add_block_again(int layer) {
  add_compute(Operation::block_again, layer,
              joined({{Role::input, activation(layer), Mode::read},
                      {Role::saved, saved(layer), Mode::update},
                      {Role::again, again(layer), Mode::write}},
                     {weights(layer, false)}),
              true);
}

void ClassBuilder::add_block_backward(int layer) {
  const int input = activation(layer), held = saved(layer);
  const auto operands = [&](Mode partial, Mode gathered) {
    return joined({{Role::gradient, gradient_, Mode::update},
                   {Role::partial, partial_, partial},
                   {Role::gathered, splits() ? -1 : gathered_rows_, gathered},  // inputs are gathered for the weights' half
                   {Role::saved, held, Mode::update},
                   {Role::again, again(layer), Mode::read},
                   {Role::input, input, Mode::read}},
                  {weights(layer, true)});
  };
  const auto begin = [&](Operation operation, Mode partial) {
    if (!shares()) return;
    auto accesses = operands(partial, Mode::write);
    if (splits())
      add_begin(operation, layer, std::move(accesses), false, {partial_});
    else
      add_begin(operation, layer, std::move(accesses), false, {partial_, gathered_rows_});
  };
  begin(Operation::mlp_begin_backward, Mode::write);
  const int mlp =
      add_compute(splits() ? Operation::mlp_backward_input : Operation::mlp_backward, layer,
                  joined(operands(shares() ? Mode::update : Mode::write, Mode::read), {{{Role::kept, kept(layer), Mode::write}}}));
  consume(sum_partial(layer, mlp, true));
  begin(Operation::attention_begin_backward, Mode::update);
  const int attention = add_compute(splits() ? Operation::attention_backward_input : Operation::attention_backward, layer,
                                    operands(Mode::update, Mode::read));
  consume(sum_partial(layer, attention, true));
  add_compute(Operation::block_begin_backward, layer, operands(Mode::read, Mode::read));
}

}  // namespace flotilla::program
