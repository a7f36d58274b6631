#include "harness.hpp"

#include "device_mirror.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "flotilla/base/half.hpp"
#include "flotilla/base/philox.hpp"

namespace flotilla::compute::test {
namespace {

using model::Operation;
using program::Role;

/// 64-byte aligned memory with a guard behind it, cut from the pool that a device mirrors.
class Memory {
 public:
  explicit Memory(Bytes size) : size_{static_cast<std::size_t>(size.count)}, bytes_{pool().take(size_ + guard)} {
    std::fill(bytes_.begin(), bytes_.end(), std::byte{0xA5});
  }
  ~Memory() { pool().give_back(); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() { return bytes_.data(); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(bytes_.data());
  }
  std::size_t size() const { return size_; }
  bool intact() const {
    return std::all_of(bytes_.begin() + static_cast<std::ptrdiff_t>(size_), bytes_.end(), [](std::byte b) { return b == std::byte{0xA5}; });
  }

 private:
  static constexpr std::size_t guard = 256;
  std::size_t size_;
  std::span<std::byte> bytes_;
};

/// The elements of a whole tensor that one member holds, in the shard's order.
std::vector<std::int64_t> held(const model::Tensor& t, int degree, int index) {
  std::vector<std::int64_t> elements;
  if (t.axis == model::Axis::none) {
    for (std::int64_t i = 0; i < t.elements(); ++i) elements.push_back(i);
    return elements;
  }
  const auto range = model::share(t.units(), degree, index);
  const auto cut = static_cast<std::size_t>(t.dimension);
  const std::int64_t extent = t.shape[cut], part = extent / t.fused;
  std::int64_t inner = 1, outer = 1;
  for (std::size_t i = 0; i < cut; ++i) outer *= t.shape[i];
  for (std::size_t i = cut + 1; i < t.shape.size(); ++i) inner *= t.shape[i];
  for (std::int64_t o = 0; o < outer; ++o)
    for (int f = 0; f < t.fused; ++f)
      for (std::int64_t u = f * part + range.first * t.unit; u < f * part + range.last * t.unit; ++u)
        for (std::int64_t i = 0; i < inner; ++i) elements.push_back((o * extent + u) * inner + i);
  return elements;
}

/// One member of the group: its parameters in parts, and a buffer for everything.
struct Member {
  Member(const Case&, const Values& parameters, int index);

  void fill(const Case&, const Values& parameters);
  void run(Operation, int layer, const Memory* input = nullptr, Memory* output = nullptr);

  model::LayerShape shape;
  Setup setup;
  std::unique_ptr<Backend> backend;
  std::vector<model::Tensor> tensors;
  std::vector<program::Part> parts;  // by layer; the token embedding last
  std::vector<std::unique_ptr<Memory>> parameters, weights, gradients;
  std::vector<std::unique_ptr<Memory>> activations;         // input of layer i
  std::vector<std::unique_ptr<Memory>> saved, kept, again;  // by layer
  Memory tokens, starts, partial, gradient, logits, stats, gathered, scalars, workspace, scratch, rows;
  bool drops, split;
  Task task;
};

int largest_microbatch(const Case& c) { return *std::max_element(c.microbatches.begin(), c.microbatches.end()); }

model::LayerShape shape_of(const Case& c, int index) {
  return {largest_microbatch(c), c.length, c.tensor_parallel, index, c.precision, c.shares};
}

Setup setup_of(const Case& c, int index) {
  return {c.model, c.length, c.tensor_parallel, index, c.precision, c.threads, c.seed, c.shares, {.tf32 = c.tf32}, 0, !c.starts.empty()};
}

Bytes largest_workspace(const Case& c, const model::LayerShape& s) {
  Bytes most{};
  for (int i = 0; i < model::all_operation_count; ++i)
    most = std::max(most, model::workspace(c.model, s, static_cast<Operation>(i), c.threads));
  return most;
}

Member::Member(const Case& c, const Values& values, int index)
    : shape{shape_of(c, index)},
      setup{setup_of(c, index)},
      backend{make_test_backend(setup, shape.sequences)},
      tensors{model::tensors(c.model)},
      tokens{Bytes{4} * (std::int64_t{shape.sequences} * (c.length + 1))},
      starts{Bytes{4} * shape.tokens()},
      partial{element_size(c.precision) * (shape.tokens() * std::max(c.model.hidden, c.model.embedding_width))},
      gradient{element_size(c.precision) * (shape.rows() * c.model.hidden)},
      logits{Bytes{4} * (shape.tokens() * model::logits_pitch(c.model, shape))},
      stats{Bytes{12} * shape.tokens()},
      gathered{Bytes{12} * (shape.tokens() * c.tensor_parallel)},
      scalars{program::scalar::count * Bytes{8}},
      workspace{largest_workspace(c, shape)},
      scratch{library_scratch(setup, shape.sequences)},
      rows{element_size(c.precision) * (shape.tokens() * std::max(c.model.hidden, c.model.embedding_width))},
      drops{c.drops},
      split{c.split} {
  const Bytes activation = element_size(c.precision) * (shape.rows() * c.model.hidden);
  for (int layer = 0; layer < c.model.layers(); ++layer) {
    activations.push_back(std::make_unique<Memory>(activation));
    const Bytes held_bytes = c.model.is_embedding(layer) ? model::embedding_layout(c.model, shape).total
                             : c.model.is_head(layer)    ? model::head_layout(c.model, shape).total
                                                         : model::block_layout(c.model, shape, c.drops).total;
    saved.push_back(std::make_unique<Memory>(held_bytes));
    kept.push_back(std::make_unique<Memory>(c.model.is_block(layer) ? model::kept_layout(c.model, shape).total : Bytes{}));
    again.push_back(std::make_unique<Memory>(model::block_layout(c.model, shape, true).again));
  }
  fill(c, values);
  backend->set_scratch({scratch.data(), scratch.size()});
  backend->fill({scalars.data(), scalars.size()}, 0);
  task.training = c.training;
  task.step = c.step;
  task.loss_scale = c.loss_scale / static_cast<float>(c.sequences() * c.length);
}

void Member::fill(const Case& c, const Values& values) {
  parts.resize(static_cast<std::size_t>(c.model.layers()) + 1);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const bool token_embedding = tensors[t].tied_layer >= 0;
    program::Part& part = parts[token_embedding ? parts.size() - 1 : static_cast<std::size_t>(tensors[t].layer)];
    const auto count = static_cast<std::int64_t>(held(tensors[t], c.tensor_parallel, shape.tensor_index).size());
    part.slots.push_back({static_cast<int>(t), part.elements, count});
    part.elements += (count + 15) / 16 * 16;
  }
  for (program::Part& part : parts) {
    parameters.push_back(std::make_unique<Memory>(Bytes{4} * part.elements));
    weights.push_back(std::make_unique<Memory>(element_size(c.precision) * part.elements));
    gradients.push_back(std::make_unique<Memory>(Bytes{4} * part.elements));
    float* p = parameters.back()->as<float>();
    std::fill_n(p, part.elements, 0.0f);
    for (const auto& slot : part.slots) {
      const model::Tensor& tensor = tensors[static_cast<std::size_t>(slot.tensor)];
      const auto elements = held(tensor, c.tensor_parallel, shape.tensor_index);
      for (std::size_t i = 0; i < elements.size(); ++i)
        p[slot.offset + static_cast<std::int64_t>(i)] = static_cast<float>(values.at(tensor.name)[static_cast<std::size_t>(elements[i])]);
    }
    backend->convert({p, static_cast<std::size_t>(part.elements)}, weights.back()->data());
    backend->fill({gradients.back()->data(), gradients.back()->size()}, 0);
  }
}

/// In two halves a pass gathers the inputs of its products for the weights' half alone.
bool gathers(Operation operation, bool split) {
  return !split || (operation != Operation::mlp_begin_backward && operation != Operation::attention_begin_backward);
}

void Member::run(Operation operation, int layer, const Memory* input, Memory* output) {
  const auto at = static_cast<std::size_t>(layer);
  task.operation = operation;
  task.layer = layer;
  task.part = &parts[at];
  task.token_embedding_part = &parts.back();
  const auto set = [&](Role role, const Memory* m) {
    task.operands[static_cast<std::size_t>(role)] = m ? const_cast<Memory*>(m)->data() : nullptr;
  };
  set(Role::tokens, &tokens);
  set(Role::document_starts, setup.documents ? &starts : nullptr);
  set(Role::input, input);
  set(Role::output, output);
  set(Role::saved, saved[at].get());
  set(Role::kept, kept[at].get());
  set(Role::partial, &partial);
  set(Role::gradient, &gradient);
  set(Role::workspace, &workspace);
  set(Role::gathered, setup.sequence_parallel && gathers(operation, split) ? &rows : nullptr);
  set(Role::again, drops && setup.model.is_block(layer) ? again[at].get() : nullptr);
  set(Role::logits, &logits);
  set(Role::stats, &stats);
  set(Role::gathered_stats, setup.tensor_parallel == 1 ? &stats : &gathered);
  set(Role::scalars, &scalars);
  set(Role::weights, weights[at].get());
  set(Role::gradients, gradients[at].get());
  set(Role::token_embedding_weights, weights.back().get());
  set(Role::token_embedding_gradients, gradients.back().get());
  backend->run(task);
}

float element(const Memory& m, Precision p, std::int64_t i) {
  auto& memory = const_cast<Memory&>(m);
  if (p == Precision::fp32) return memory.as<float>()[i];
  if (p == Precision::fp16) return half_to_float(memory.as<std::uint16_t>()[i]);
  return std::bit_cast<float>(static_cast<std::uint32_t>(memory.as<std::uint16_t>()[i]) << 16);
}

/// A tensor-parallel group that steps through the operations together.
class GroupRun {
 public:
  GroupRun(const Case& c, const Values& parameters) : case_{c} {
    for (int i = 0; i < c.tensor_parallel; ++i) members_.push_back(std::make_unique<Member>(c, parameters, i));
  }

  void microbatch(const std::int32_t* tokens, int first_sequence, int sequences) {
    n_ = std::int64_t{sequences} * case_.length;
    for (auto& m : members_) {
      m->task.sequences = sequences;
      m->task.first_sequence = first_sequence;
      const std::size_t per_sequence = static_cast<std::size_t>(case_.length) + 1;
      std::memcpy(m->tokens.data(), tokens + static_cast<std::size_t>(first_sequence) * per_sequence,
                  4 * per_sequence * static_cast<std::size_t>(sequences));
      if (!case_.starts.empty())
        std::memcpy(m->starts.data(), case_.starts.data() + std::int64_t{first_sequence} * case_.length, static_cast<std::size_t>(4 * n_));
    }
    forward();
    collect_logits();
    backward();
  }

  Outcome outcome() const;

 private:
  void each(Operation operation, int layer, int output_layer = -1) {
    for (auto& m : members_)
      m->run(operation, layer, m->activations[static_cast<std::size_t>(layer)].get(),
             output_layer < 0 ? nullptr : m->activations[static_cast<std::size_t>(output_layer)].get());
  }

  /// With shared tokens each member gets its rows alone, and nobody may read the others.
  void all_reduce(int width) {
    std::vector<float> sum(static_cast<std::size_t>(n_ * width));
    for (auto& m : members_)
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += element(m->partial, case_.precision, static_cast<std::int64_t>(i));
    if (members_.size() == 1) return;
    for (auto& m : members_) {
      std::vector<float> mine = sum;
      if (case_.shares) {
        const auto rows = model::share(n_, case_.tensor_parallel, m->shape.tensor_index);
        std::fill_n(mine.begin(), rows.first * width, std::nanf(""));
        std::fill(mine.begin() + rows.last * width, mine.end(), std::nanf(""));
      }
      m->backend->convert(mine, m->partial.data());
    }
  }

  /// Each member's rows at their place in everybody's buffer.
  void gather_rows(Memory Member::*buffer, int width) {
    const std::int64_t token = width * element_size(case_.precision).count;
    for (auto& from : members_) {
      const auto rows = model::share(n_, case_.tensor_parallel, from->shape.tensor_index);
      for (auto& to : members_)
        if (to != from)
          std::memcpy(((*to).*buffer).data() + rows.first * token, ((*from).*buffer).data() + rows.first * token,
                      static_cast<std::size_t>(rows.count() * token));
    }
  }
  void begin(Operation operation, int layer, std::initializer_list<Memory Member::*> buffers, int width) {
    if (!case_.shares) return;
    each(operation, layer);
    for (auto buffer : buffers) gather_rows(buffer, width);
  }

  void gather() {
    for (auto& to : members_)
      for (std::size_t i = 0; i < members_.size(); ++i)
        std::memcpy(to->gathered.as<float>() + static_cast<std::int64_t>(i) * 3 * n_, members_[i]->stats.data(),
                    static_cast<std::size_t>(12 * n_));
  }

  void forward() {
    const model::Config& c = case_.model;
    each(Operation::embedding_forward, 0);
    all_reduce(c.embedding_width);
    each(Operation::embedding_end_forward, 0, 1);
    for (int layer = 1; layer <= c.blocks; ++layer) {
      begin(Operation::attention_begin_forward, layer, {&Member::partial}, c.hidden);
      each(Operation::attention_forward, layer);
      all_reduce(c.hidden);
      begin(Operation::mlp_begin_forward, layer, {&Member::partial}, c.hidden);
      each(Operation::mlp_forward, layer);
      all_reduce(c.hidden);
      each(Operation::block_end_forward, layer, layer + 1);
    }
    begin(Operation::head_begin_forward, c.blocks + 1, {&Member::rows}, c.embedding_width);
    each(Operation::head_forward, c.blocks + 1);
    gather();
    each(Operation::head_loss, c.blocks + 1);
  }

  void backward() {
    const model::Config& c = case_.model;
    const bool split = case_.split;
    each(split ? Operation::head_backward_input : Operation::head_backward, c.blocks + 1);
    all_reduce(c.embedding_width);
    each(Operation::head_end_backward, c.blocks + 1);
    for (int layer = c.blocks; layer >= 1; --layer) {
      if (case_.drops) forget_dropped(layer);
      if (case_.drops) each(Operation::block_again, layer);
      begin_backward(Operation::mlp_begin_backward, layer);
      each(split ? Operation::mlp_backward_input : Operation::mlp_backward, layer);
      all_reduce(c.hidden);
      begin_backward(Operation::attention_begin_backward, layer);
      each(split ? Operation::attention_backward_input : Operation::attention_backward, layer);
      all_reduce(c.hidden);
      each(Operation::block_begin_backward, layer);
    }
    if (split) weights_halves();  // a tied table sums the head's part first, as it does otherwise
    begin(Operation::embedding_begin_backward, 0, {&Member::partial}, c.embedding_width);
    each(Operation::embedding_backward, 0);
  }

  void begin_backward(Operation operation, int layer) {
    if (case_.split)
      begin(operation, layer, {&Member::partial}, case_.model.hidden);
    else
      begin(operation, layer, {&Member::partial, &Member::rows}, case_.model.hidden);
  }

  void weights_halves() {
    each(Operation::head_backward_weights, case_.model.blocks + 1);
    for (int layer = case_.model.blocks; layer >= 1; --layer) {
      begin(Operation::mlp_begin_weights, layer, {&Member::partial, &Member::rows}, case_.model.hidden);
      each(Operation::mlp_backward_weights, layer);
      begin(Operation::attention_begin_weights, layer, {&Member::partial, &Member::rows}, case_.model.hidden);
      each(Operation::attention_backward_weights, layer);
    }
  }

  /// Other blocks have used the place; not a number makes whatever is not computed again visible.
  void forget_dropped(int layer) {
    for (auto& m : members_) {
      Memory& again = *m->again[static_cast<std::size_t>(layer)];
      std::memset(again.data(), 0xFF, again.size());
    }
  }

  void collect_logits();
  void collect(const Member&, Values&) const;
  void expect_intact(const Member&) const;

  Case case_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<double> logits_;
  std::int64_t n_ = 0;
};

/// Before the backward pass makes gradients of them. Members hold the vocabulary's rows in order.
void GroupRun::collect_logits() {
  for (std::int64_t token = 0; token < n_; ++token)
    for (auto& m : members_) {
      const float* row = m->logits.as<float>() + token * model::logits_pitch(case_.model, m->shape);
      logits_.insert(logits_.end(), row, row + model::local_vocabulary(case_.model, m->shape));
    }
}

void GroupRun::collect(const Member& m, Values& gradients) const {
  for (std::size_t p = 0; p < m.parts.size(); ++p)
    for (const auto& slot : m.parts[p].slots) {
      const model::Tensor& tensor = m.tensors[static_cast<std::size_t>(slot.tensor)];
      const auto elements = held(tensor, case_.tensor_parallel, m.shape.tensor_index);
      auto& whole = gradients[tensor.name];
      const bool again = tensor.axis == model::Axis::none && !whole.empty();
      whole.resize(static_cast<std::size_t>(tensor.elements()));
      const float* shard = m.gradients[p]->as<float>() + slot.offset;
      for (std::size_t i = 0; i < elements.size(); ++i) {
        double& value = whole[static_cast<std::size_t>(elements[i])];
        if (again && (case_.shares || tensor.summed)) {  // of this member's tokens, or heads
          value += static_cast<double>(shard[i]);
          continue;
        }
        if (again) {
          EXPECT_EQ(value, static_cast<double>(shard[i])) << tensor.name << " differs between members";
        }
        value = static_cast<double>(shard[i]);
      }
    }
}

void GroupRun::expect_intact(const Member& m) const {
  for (const Memory* memory :
       {&m.tokens, &m.starts, &m.partial, &m.gradient, &m.logits, &m.stats, &m.gathered, &m.scalars, &m.workspace, &m.scratch, &m.rows})
    EXPECT_TRUE(memory->intact());
  for (const auto* list : {&m.activations, &m.saved, &m.kept, &m.again, &m.weights, &m.gradients})
    for (const auto& memory : *list) EXPECT_TRUE(memory->intact());
}

Outcome GroupRun::outcome() const {
  Outcome result;
  result.loss = members_.front()->scalars.as<double>()[0] / (case_.sequences() * case_.length);
  result.logits = logits_;
  for (const auto& m : members_) {
    EXPECT_EQ(m->scalars.as<double>()[0], members_.front()->scalars.as<double>()[0]);
    expect_intact(*m);
    collect(*m, result.gradients);
  }
  for (auto& [name, values] : result.gradients)
    for (double& value : values) value /= static_cast<double>(case_.loss_scale);
  return result;
}

double normal(std::uint64_t seed, std::uint64_t purpose, std::uint64_t index) {
  const auto bits = Philox{seed, purpose}(index);
  return std::sqrt(-2 * std::log(static_cast<double>(uniform(bits[0])))) * std::cos(2 * M_PI * static_cast<double>(uniform(bits[1])));
}

}  // namespace

Values random_parameters(const model::Config& c, std::uint64_t seed) {
  Values values;
  std::uint64_t purpose = 0;
  for (const model::Tensor& t : model::tensors(c)) {
    auto& v = values[t.name];
    const double deviation = t.shape.size() == 2 ? 0.25 : 0.1, mean = t.init == model::Init::ones ? 1 : 0;
    for (std::int64_t i = 0; i < t.elements(); ++i)
      v.push_back(static_cast<double>(static_cast<float>(mean + deviation * normal(seed, purpose, static_cast<std::uint64_t>(i)))));
    ++purpose;
  }
  return values;
}

std::vector<std::int32_t> random_tokens(const model::Config& c, int sequences, int length, std::uint64_t seed) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(sequences) * (static_cast<std::size_t>(length) + 1));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>(Philox{seed, 99}(i)[0] % static_cast<unsigned>(c.vocabulary));
  return tokens;
}

Outcome run(const Case& c, const Values& parameters, const std::vector<std::int32_t>& tokens) {
  GroupRun group{c, parameters};
  int first = 0;
  for (int sequences : c.microbatches) {
    group.microbatch(tokens.data(), first, sequences);
    first += sequences;
  }
  return group.outcome();
}

model::Config uneven_model(model::NormPlacement placement, model::Activation activation, bool projects) {
  model::Config c;
  c.name = "uneven";
  c.family = "gpt2";
  c.blocks = 2;
  c.hidden = 30;
  c.heads = 6;
  c.feed_forward = 46;
  c.vocabulary = 37;
  c.positions = 160;
  c.position_offset = 2;
  c.embedding_width = projects ? 13 : 30;
  c.activation = activation;
  c.norm = placement;
  c.final_norm = placement == model::NormPlacement::pre;
  return c;
}

model::Config adapted(model::Config c, int rank, int qkv_parts, int up_parts) {
  c.lora = {rank, 2.5 * rank, {model::linears.begin(), model::linears.end()}, qkv_parts, up_parts};
  return c;
}

model::Config uneven_gpt_neo() {
  model::Config c = uneven_model(model::NormPlacement::pre, model::Activation::gelu_tanh, false);
  c.family = "gpt_neo";
  c.position_offset = 0;
  c.windows = {0, 3};
  c.scaled_scores = false;
  c.qkv_bias = false;
  return c;
}

model::Config uneven_llama(bool tied) {
  model::Config c = uneven_model(model::NormPlacement::pre, model::Activation::swiglu, false);
  c.family = "llama";
  c.hidden = c.embedding_width = 36;
  c.key_value_heads = 3;
  c.norm_kind = model::NormKind::rms;
  c.rotary.theta = 100;
  c.qkv_bias = c.attention_output_bias = c.feed_forward_bias = false;
  c.tied_head = tied;
  return c;
}

model::Config uneven_qwen3() {
  model::Config c = uneven_llama(false);
  c.family = "qwen3";
  c.head_width = 10;
  c.query_key_norms = true;
  return c;
}

model::Config uneven_gpt_neox() {
  model::Config c = uneven_model(model::NormPlacement::pre, model::Activation::gelu, false);
  c.family = "gpt_neox";
  c.position_offset = 0;
  c.hidden = c.embedding_width = 36;
  c.rotary.theta = 100;
  c.rotary.width = 4;
  c.parallel_residual = c.interleaved_qkv = true;
  c.tied_head = false;
  return c;
}

model::Config uneven_bloom() {
  model::Config c = uneven_model(model::NormPlacement::pre, model::Activation::gelu_tanh, false);
  c.family = "bloom";
  c.position_offset = 0;
  c.alibi = c.embedding_norm = c.interleaved_qkv = true;
  return c;
}

model::Config uneven_gemma2() {
  model::Config c = uneven_llama(true);
  c.family = "gemma2";
  c.activation = model::Activation::geglu;
  c.head_width = 10;
  c.norm_offset = c.output_norms = c.scaled_embedding = true;
  c.windows = {3, 0};
  c.score_width = 7;
  c.score_cap = 0.9;  // near enough to scores to bend them
  c.logit_cap = 2;
  return c;
}

model::Config uneven_gemma3() {
  model::Config c = uneven_gemma2();
  c.family = "gemma3_text";
  c.score_cap = c.logit_cap = 0;
  c.query_key_norms = true;
  c.rotary.window_theta = 20;
  c.rotary.factor = 3;
  c.rotary.linear = true;
  return c;
}

double norm(const std::vector<double>& v) {
  double sum = 0;
  for (double x : v) sum += x * x;
  return std::sqrt(sum);
}

double relative_difference(const std::vector<double>& a, const std::vector<double>& b, double floor) {
  double sum = 0;
  for (std::size_t i = 0; i < b.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum) / std::max(norm(b), floor);
}

double worst_difference(const Values& a, const Values& b) {
  double largest = 0, worst = 0;
  for (const auto& [name, values] : b) largest = std::max(largest, norm(values));
  for (const auto& [name, values] : b) worst = std::max(worst, relative_difference(a.at(name), values, 1e-3 * largest));
  return worst;
}

}  // namespace flotilla::compute::test
