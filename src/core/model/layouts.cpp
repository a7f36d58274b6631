#include <algorithm>

#include "flotilla/model/operations.hpp"
#include "flotilla/model/tensors.hpp"

namespace flotilla::model {
namespace {

/// Hands out consecutive segments that start at multiples of 64 bytes.
class Packer {
 public:
  Segment take(Bytes size) {
    const Segment segment{end_, size};
    end_ = align_up(end_ + size, 64);
    return segment;
  }
  Segment take_if(bool present, Bytes size) { return take(present ? size : Bytes{}); }
  Bytes end() const { return end_; }

 private:
  Bytes end_;
};

}  // namespace

int local_groups(const Config& c, const LayerShape& s) {
  return static_cast<int>(share(c.groups(), s.tensor_parallel, s.tensor_index).count());
}
int local_heads(const Config& c, const LayerShape& s) { return local_groups(c, s) * c.queries_per_group(); }
int columns_through(const Config& c, const LayerShape& s, bool experts) {
  const auto mine = [&](int columns) { return static_cast<int>(share(columns, s.tensor_parallel, s.tensor_index).count()); };
  if (!experts) return mine(c.feed_forward);
  return c.experts.per_token * mine(c.experts.width) + mine(c.experts.shared_width);
}
int local_columns(const Config& c, const LayerShape& s) {
  const int dense = c.has_dense_blocks() ? columns_through(c, s, false) : 0;
  return c.experts.on() ? std::max(dense, columns_through(c, s, true)) : dense;
}
std::int64_t qkv_width(const Config& c, const LayerShape& s) {
  return (std::int64_t{local_heads(c, s)} + 2 * local_groups(c, s)) * c.head_size();
}
std::int64_t raw_width(const Config& c, const LayerShape& s) {
  return c.query_key_norms ? (std::int64_t{local_heads(c, s)} + local_groups(c, s)) * c.head_size() : 0;
}
Bytes cache_size(const Config& c, const LayerShape& s) {
  return element_size(s.precision) * (std::int64_t{s.sequences} * s.cache * 2 * local_groups(c, s) * c.head_size());
}
std::int64_t up_width(const Config& c, const LayerShape& s) { return std::int64_t{local_columns(c, s)} * (c.gated() ? 2 : 1); }
int local_vocabulary(const Config& c, const LayerShape& s) {
  return static_cast<int>(share(c.vocabulary, s.tensor_parallel, s.tensor_index).count());
}

std::int64_t logits_pitch(const Config& c, const LayerShape& s) { return (std::int64_t{local_vocabulary(c, s)} + 15) / 16 * 16; }

BlockLayout block_layout(const Config& c, const LayerShape& s, bool drops) {
  const std::int64_t n = s.tokens(), rows = s.rows();
  const Bytes e = element_size(s.precision), f{4};
  const std::int64_t attention = std::int64_t{local_heads(c, s)} * c.head_size();
  const std::int64_t columns = local_columns(c, s);
  const bool pre = c.norm == NormPlacement::pre;
  Packer packer, again;
  const auto cheap = [&](bool present, Bytes size) {  // to compute again
    if (!drops) return packer.take_if(present, size);
    Segment segment = again.take_if(present, size);
    segment.again = true;
    return segment;
  };
  BlockLayout layout;
  layout.norm1_stats = packer.take(f * (2 * rows));
  layout.attention_input = cheap(pre, e * (rows * c.hidden));
  layout.raw_heads = packer.take(e * (n * raw_width(c, s)));
  layout.qkv = packer.take(e * (n * qkv_width(c, s)));
  layout.log_sum_exp = packer.take(f * (n * local_heads(c, s)));
  layout.attention_output = packer.take(e * (n * attention));
  layout.raw_attention = packer.take_if(c.output_norms, e * (rows * c.hidden));
  layout.raw_attention_stats = packer.take_if(c.output_norms, f * (2 * rows));
  layout.middle = packer.take(e * (rows * c.hidden));
  layout.norm2_stats = packer.take(f * (2 * rows));
  layout.ff_input = cheap(true, e * (rows * c.hidden));
  layout.router = packer.take_if(c.experts.on(), f * (rows * c.experts.count));
  layout.routed = packer.take_if(c.experts.on(), e * (2 * rows * c.experts.per_token * c.hidden));
  layout.up = packer.take_if(c.activation != Activation::relu, e * (n * up_width(c, s)));
  // ReLU's output is its own mask, and only a product brings it back.
  layout.activated = c.activation == Activation::relu ? packer.take(e * (n * columns)) : cheap(true, e * (n * columns));
  layout.raw_feed_forward = packer.take_if(c.output_norms, e * (rows * c.hidden));
  layout.raw_feed_forward_stats = packer.take_if(c.output_norms, f * (2 * rows));
  layout.end = packer.take_if(!pre, e * (rows * c.hidden));
  layout.total = packer.end();
  layout.again = again.end();
  return layout;
}

KeptLayout kept_layout(const Config& c, const LayerShape& s) {
  const std::int64_t n = s.tokens();
  const Bytes e = element_size(s.precision);
  Packer packer;
  KeptLayout layout;
  layout.output_gradient = packer.take_if(c.norm == NormPlacement::pre, e * (s.rows() * c.hidden));
  layout.up_gradient = packer.take_if(c.activation == Activation::relu, e * (n * up_width(c, s)));
  layout.total = packer.end();
  return layout;
}

HeadLayout head_layout(const Config& c, const LayerShape& s) {
  const std::int64_t n = s.rows();
  const Bytes e = element_size(s.precision);
  Packer packer;
  HeadLayout layout;
  layout.norm_stats = packer.take_if(c.final_norm, Bytes{8} * n);
  layout.normed = packer.take_if(c.final_norm, e * (n * c.hidden));
  layout.projected = packer.take_if(c.projects(), e * (n * c.embedding_width));
  layout.total = packer.end();
  return layout;
}

EmbeddingLayout embedding_layout(const Config& c, const LayerShape& s) {
  Packer packer;
  EmbeddingLayout layout;
  layout.words = packer.take_if(c.projects() || c.embedding_norm, element_size(s.precision) * (s.rows() * c.embedding_width));
  layout.norm_stats = packer.take_if(c.embedding_norm, Bytes{8} * s.rows());
  layout.total = packer.end();
  return layout;
}

}  // namespace flotilla::model
