#include <algorithm>

#include "adapter_products.hpp"
#include "attention.hpp"
#include "products.hpp"

namespace flotilla::compute {
namespace {

using namespace cpu;

/// The products of every operation for microbatches of `sequences`, attention's apart.
std::vector<ProductSpec> linear_products(const Setup& s, int sequences) {
  const model::LayerShape shape{sequences, s.length, s.tensor_parallel, s.tensor_index, s.precision, s.sequence_parallel};
  const model::Config& c = s.model;
  const std::int64_t n = shape.tokens(), d = c.hidden, w = c.embedding_width, columns = model::local_columns(c, shape);
  const std::int64_t qkv = model::qkv_width(c, shape), up = model::up_width(c, shape);
  const std::int64_t attention = std::int64_t{model::local_heads(c, shape)} * c.head_size();
  std::vector<ProductSpec> all;
  const auto add = [&](std::int64_t out, std::int64_t in, bool bias, bool relu, std::int64_t rows) {
    ProductSpec forward = linear_forward(s.precision, rows, out, in);
    forward.bias = bias;
    forward.relu = relu;
    all.insert(all.end(), {forward, linear_input_gradient(s.precision, rows, out, in), linear_weight_gradient(s.precision, rows, out, in)});
  };
  // Projections are of the rows that this rank holds.
  const std::int64_t held = s.sequence_parallel ? model::share(n, s.tensor_parallel, s.tensor_index).count() : n;
  add(qkv, d, c.qkv_bias, false, n);
  add(d, attention, false, false, n);
  add(up, d, c.feed_forward_bias, c.activation == model::Activation::relu, n);
  add(d, columns, false, false, n);
  all[all.size() - 2].c_row = up;  // the gradient of the activated columns, at the start of each row of those before
  if (c.projects() && held > 0) add(d, w, false, false, held);
  if (c.projects() && held > 0) add(w, d, false, false, held);
  const std::size_t head = all.size();
  add(model::local_vocabulary(c, shape), w, false, false, n);
  const std::int64_t pitch = model::logits_pitch(c, shape), gradient_pitch = s.precision == Precision::fp32 ? pitch : 2 * pitch;
  all[head].c_fp32 = true;
  all[head].c_row = pitch;
  all[head + 1].a_row = gradient_pitch;
  all[head + 2].a_column = gradient_pitch;
  return all;
}

/// Products of the adapters, and those that add to what an adapter puts out.
std::vector<ProductSpec> products_of_adapters(const Setup& s, int sequences) {
  const model::LayerShape shape{sequences, s.length, s.tensor_parallel, s.tensor_index, s.precision, s.sequence_parallel};
  const model::Lora& lora = s.model.lora;
  std::vector<ProductSpec> all;
  for (const model::Linear linear : lora.targets) {
    const auto adapter = model::adapter_shape(s.model, shape, linear);
    const std::int64_t pitch = linear == model::Linear::down ? model::up_width(s.model, shape) : adapter.in;
    ProductSpec own = linear_forward(s.precision, shape.tokens(), adapter.out, adapter.in);
    own.accumulate = true;
    own.bias = linear == model::Linear::qkv ? s.model.qkv_bias : linear == model::Linear::up && s.model.feed_forward_bias;
    own.relu = linear == model::Linear::up && s.model.activation == model::Activation::relu;
    all.push_back(own);
    for (const ProductSpec& product : adapter_products(s.precision, shape.tokens(), adapter, pitch, static_cast<float>(lora.scale())))
      all.push_back(product);
  }
  return all;
}

}  // namespace

Bytes cpu_scratch(const Setup& setup, int sequences) {
  std::int64_t most = attention_scratch(setup);
  for (int shorter = 1; shorter <= sequences; ++shorter)  // a replica's last microbatch may be any of these
    for (auto* products : {linear_products, products_of_adapters})
      for (const ProductSpec& s : products(setup, shorter)) most = std::max(most, scratch_bytes(s, setup.threads));
  return align_up({most}, 64);
}

}  // namespace flotilla::compute
