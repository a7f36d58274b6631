#include "flotilla/model/tensors.hpp"

#include <algorithm>
#include <string_view>

#include "flotilla/base/text.hpp"
#include "frozen.hpp"

namespace flotilla::model {
namespace {

/// In one allocation: programs list the tensors of every plan that is forecast.
std::string joined(const std::string& name, std::string_view ending) {
  std::string all;
  all.reserve(name.size() + ending.size());
  return all.append(name).append(ending);
}

/// Of a norm's weight.
Init norm_init(const Config& c) { return c.norm_offset ? Init::zeros : Init::ones; }

class TensorList {
 public:
  explicit TensorList(const Config& c) : config_{c} {
    constexpr std::size_t most_of_a_block = 16, most_beside = 8;
    list_.reserve(static_cast<std::size_t>(c.blocks) * most_of_a_block + most_beside);
  }

  Tensor& matrix(int layer, std::string name, std::int64_t rows, std::int64_t columns, Init init = Init::normal) {
    Tensor& t = add(layer, std::move(name), {rows, columns}, init);
    t.decays = true;
    return t;
  }
  /// As many matrices, or vectors, as the first extent says.
  Tensor& stack(int layer, std::string name, std::vector<std::int64_t> shape, Init init) {
    const bool matrices = shape.size() > 2;
    Tensor& t = add(layer, std::move(name), std::move(shape), init);
    t.decays = matrices;
    return t;
  }
  Tensor& vector(int layer, std::string name, std::int64_t extent) { return add(layer, std::move(name), {extent}, Init::zeros); }
  void norm(int layer, const std::string& name) {
    vector(layer, joined(name, ".weight"), config_.hidden).init = norm_init(config_);
    if (config_.norm_kind == NormKind::layer) vector(layer, joined(name, ".bias"), config_.hidden);
  }
  std::vector<Tensor> take() { return std::move(list_); }

 private:
  Tensor& add(int layer, std::string name, std::vector<std::int64_t> shape, Init init) {
    Tensor& t = list_.emplace_back();
    t.name = std::move(name);
    t.layer = layer;
    t.shape = std::move(shape);
    t.init = init;
    return t;
  }

  const Config& config_;
  std::vector<Tensor> list_;
};

void cut(Tensor& t, Axis axis, int dimension, std::int64_t unit = 1, int fused = 1) {
  t.axis = axis;
  t.dimension = dimension;
  t.unit = unit;
  t.fused = fused;
}

void add_embedding(const Config& c, TensorList& list) {
  Tensor& word = list.matrix(0, "embedding.word", c.vocabulary, c.embedding_width);
  cut(word, Axis::vocabulary, 0);
  if (c.tied_head) word.tied_layer = c.blocks + 1;
  if (c.embedding_norm) list.norm(0, "embedding.norm");
  if (c.has_position_table()) list.matrix(0, "embedding.position", std::int64_t{c.position_offset} + c.positions, c.hidden);
  if (c.projects()) list.matrix(0, "embedding.project_in", c.hidden, c.embedding_width);
}

void add_attention(const Config& c, TensorList& list, int layer, const std::string& name, Init output_init) {
  const std::int64_t d = c.hidden, a = c.attention_width(), queries = c.queries_per_group();
  const std::int64_t rows = a + 2 * std::int64_t{c.groups()} * c.head_size();
  const std::int64_t unit = c.grouped_qkv() ? (queries + 2) * c.head_size() : c.head_size();
  const int fused = c.grouped_qkv() ? 1 : 3;
  cut(list.matrix(layer, joined(name, ".qkv.weight"), rows, d), Axis::head, 0, unit, fused);
  if (c.qkv_bias) cut(list.vector(layer, joined(name, ".qkv.bias"), rows), Axis::head, 0, unit, fused);
  cut(list.matrix(layer, joined(name, ".out.weight"), d, a, output_init), Axis::head, 1, queries * c.head_size());
  if (c.attention_output_bias) list.vector(layer, joined(name, ".out.bias"), d);
}

/// Over all columns of queries, and of keys; each member of a tensor-parallel group has the weights of its heads.
void add_wide_head_norms(const Config& c, TensorList& list, int layer, const std::string& name) {
  const std::int64_t keys = std::int64_t{c.groups()} * c.head_size();
  Tensor& query = list.vector(layer, joined(name, ".query_norm.weight"), c.attention_width());
  query.init = norm_init(c);
  cut(query, Axis::head, 0, std::int64_t{c.queries_per_group()} * c.head_size());
  Tensor& key = list.vector(layer, joined(name, ".key_norm.weight"), keys);
  key.init = norm_init(c);
  cut(key, Axis::head, 0, c.head_size());
}

void add_head_norms(const Config& c, TensorList& list, int layer, const std::string& name) {
  if (c.wide_head_norms) return add_wide_head_norms(c, list, layer, name);
  for (const char* of : {".query_norm.weight", ".key_norm.weight"}) {
    Tensor& weight = list.vector(layer, joined(name, of), c.head_size());
    weight.init = norm_init(c);
    weight.summed = true;
  }
}

/// One layer of `columns` that every token goes through.
void add_columns(const Config& c, TensorList& list, int layer, const std::string& name, std::int64_t columns, Init output_init) {
  const int fused = c.gated() ? 2 : 1;
  const std::int64_t rows = fused * columns;
  cut(list.matrix(layer, joined(name, ".up.weight"), rows, c.hidden), Axis::column, 0, 1, fused);
  if (c.feed_forward_bias) cut(list.vector(layer, joined(name, ".up.bias"), rows), Axis::column, 0, 1, fused);
  cut(list.matrix(layer, joined(name, ".down.weight"), c.hidden, columns, output_init), Axis::column, 1);
  if (c.feed_forward_bias) list.vector(layer, joined(name, ".down.bias"), c.hidden);
}

void add_experts(const Config& c, TensorList& list, int layer, const std::string& name, Init output_init) {
  const Experts& x = c.experts;
  const int fused = c.gated() ? 2 : 1;
  const std::int64_t rows = std::int64_t{fused} * x.width;
  list.matrix(layer, joined(name, ".experts.router.weight"), x.count, c.hidden);
  cut(list.stack(layer, joined(name, ".experts.up.weight"), {x.count, rows, c.hidden}, Init::normal), Axis::column, 1, 1, fused);
  if (c.feed_forward_bias)
    cut(list.stack(layer, joined(name, ".experts.up.bias"), {x.count, rows}, Init::zeros), Axis::column, 1, 1, fused);
  cut(list.stack(layer, joined(name, ".experts.down.weight"), {x.count, c.hidden, x.width}, output_init), Axis::column, 2);
  if (c.feed_forward_bias) list.stack(layer, joined(name, ".experts.down.bias"), {x.count, c.hidden}, Init::zeros);
  if (x.shared_width > 0) add_columns(c, list, layer, joined(name, ".shared"), x.shared_width, output_init);
  if (x.shared_gate) list.matrix(layer, joined(name, ".shared.gate.weight"), 1, c.hidden);
}

void add_block(const Config& c, TensorList& list, int block) {
  const std::string name = text("block.", block);
  const Init output_init = c.scaled_residual_init ? Init::normal_residual : Init::normal;
  list.norm(block + 1, joined(name, ".norm1"));
  add_attention(c, list, block + 1, joined(name, ".attention"), output_init);
  if (c.query_key_norms) add_head_norms(c, list, block + 1, joined(name, ".attention"));
  if (c.output_norms) list.norm(block + 1, joined(name, ".attention.output_norm"));
  list.norm(block + 1, joined(name, ".norm2"));
  if (c.experts.in_block(block))
    add_experts(c, list, block + 1, name, output_init);
  else
    add_columns(c, list, block + 1, joined(name, ".feed_forward"), c.feed_forward, output_init);
  if (c.output_norms) list.norm(block + 1, joined(name, ".feed_forward.output_norm"));
}

/// A half of the target's adapter is cut as its weight is; the other is whole, and each member has a part of its gradient.
void add_adapters(const Config& c, std::vector<Tensor>& list) {
  const std::size_t own = list.size();
  for (std::size_t t = 0; t < own; ++t)
    for (const Linear linear : c.lora.targets) {
      if (!list[t].name.starts_with("block.") || !list[t].name.ends_with(joined(std::string{to_string(linear)}, ".weight"))) continue;
      const Tensor weight = list[t];
      const std::string name = weight.name.substr(0, weight.name.size() - std::string_view{"weight"}.size());
      Tensor a = weight, b = weight;
      a.name = name + "lora_A";
      b.name = name + "lora_B";
      a.shape = {std::int64_t{c.lora.parts(linear)} * c.lora.rank, weight.shape[1]};
      b.shape = {weight.shape[0], c.lora.rank};
      a.init = Init::adapter;
      b.init = Init::zeros;
      Tensor& whole = weight.dimension == 0 ? a : b;
      cut(whole, Axis::none, -1);
      whole.summed = true;
      list.push_back(std::move(a));
      list.push_back(std::move(b));
    }
}

}  // namespace

std::vector<Tensor> tensors(const Config& c) {
  TensorList list{c};
  add_embedding(c, list);
  for (int block = 0; block < c.blocks; ++block) add_block(c, list, block);
  if (c.final_norm) list.norm(c.blocks + 1, "head.norm");
  if (c.projects()) list.matrix(c.blocks + 1, "head.project_out", c.embedding_width, c.hidden);
  if (!c.tied_head) cut(list.matrix(c.blocks + 1, "head.word", c.vocabulary, c.embedding_width), Axis::vocabulary, 0);
  auto tensors = list.take();
  if (c.lora.on()) add_adapters(c, tensors);
  freeze(c, tensors);
  return tensors;
}

bool is_adapter(const Tensor& tensor) { return tensor.name.ends_with(".lora_A") || tensor.name.ends_with(".lora_B"); }

int first_trained_layer(const Config& c, const std::vector<Tensor>& tensors) {
  int first = c.layers();
  for (const Tensor& t : tensors)
    if (t.trained) first = std::min(first, t.layer);
  return first;
}

bool is_of_experts(const Tensor& tensor) {
  return tensor.name.find(".experts.up.") != std::string::npos || tensor.name.find(".experts.down.") != std::string::npos;
}

std::int64_t active_parameter_count(const Config& c) {
  std::int64_t sum = 0;
  for (const Tensor& t : tensors(c)) sum += is_of_experts(t) ? t.elements() / c.experts.count * c.experts.per_token : t.elements();
  return sum;
}

std::int64_t parameter_count(const Config& c) {
  std::int64_t sum = 0;
  for (const Tensor& t : tensors(c)) sum += t.elements();
  return sum;
}

}  // namespace flotilla::model
