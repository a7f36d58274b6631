#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "flotilla/model/config.hpp"
#include "flotilla/model/operations.hpp"

namespace flotilla::model {

/// The logical axis along which tensor parallelism cuts a tensor.
enum class Axis {
  none,        ///< every rank of the group holds the whole tensor
  head,        ///< attention heads, queries that share keys and values together
  column,      ///< feed-forward columns
  vocabulary,  ///< rows of a token embedding
};

/// How a tensor starts, as a pure function of (seed, tensor name, global element index).
enum class Init {
  zeros,
  ones,
  normal,
  normal_residual,
  adapter,  ///< uniform within 1 / sqrt(columns) of zero, as PEFT draws A
};

/// One named parameter of the whole model. Element order is row-major in `shape`.
struct Tensor {
  std::string name;     ///< "block.3.attention.qkv.weight", "embedding.word"
  int layer = 0;        ///< the layer that owns it
  int tied_layer = -1;  ///< a second layer that uses it too (the head uses the token embedding), or -1
  std::vector<std::int64_t> shape;
  Axis axis = Axis::none;
  int dimension = -1;     ///< the dimension of `shape` that `axis` cuts, or -1
  int fused = 1;          ///< equal parts one after the other along `dimension`, each cut alike (qkv: 3; gate and up: 2)
  std::int64_t unit = 1;  ///< elements of `dimension` per logical unit (a head: head_size)
  Init init = Init::zeros;
  bool decays = false;  ///< AdamW's weight decay applies (matrices yes, biases and norms no)
  /// Every member of a tensor-parallel group holds it whole, and has the gradient of its own heads alone: the group sums them.
  bool summed = false;
  bool trained = true;  ///< else it is frozen (Config::frozen): it has no gradient and no optimizer state

  bool operator==(const Tensor&) const = default;
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (auto extent : shape) n *= extent;
    return n;
  }
  /// A table of words by rows, of the embedding, of the head, or of both.
  /// Logical units along `axis` (heads, columns, rows); 1 where axis is none.
  std::int64_t units() const { return axis == Axis::none ? 1 : shape[static_cast<std::size_t>(dimension)] / fused / unit; }
};

/// Every parameter, layer by layer, in a fixed order. Matrices are (output, input). Names and shapes, d = hidden, f = feed_forward,
/// w = embedding_width, l = 0 … blocks-1:
///
///   embedding.word (vocabulary, w) axis vocabulary, tied to the head where tied_head;
///   embedding.norm.{weight,bias} (d), only with embedding_norm;
///   embedding.position (position_offset + positions, d), unless rotary or alibi;
///   embedding.project_in (d, w), only where w != d
///   block.l.norm1.{weight,bias} (d); block.l.attention.qkv.{weight (3 heads * head_size, d), bias} axis head dimension 0 fused 3 unit
///   head_size; block.l.attention.out.{weight (d, heads * head_size) axis head dimension 1 unit head_size, bias (d)};
///   block.l.attention.{query,key}_norm.weight (head_size), only with query_key_norms;
///   block.l.{attention,feed_forward}.output_norm.{weight,bias} (d), only with output_norms, each behind its sub-layer;
///   block.l.norm2.{weight,bias} (d); block.l.feed_forward.up.{weight (f, d), bias (f)} axis column dimension 0;
///   block.l.feed_forward.down.{weight (d, f) axis column dimension 1, bias (d)}
///   where the block has experts, E of w columns and s shared ones, in its place: block.l.experts.router.weight (E, d);
///   block.l.experts.up.{weight (E, w, d) axis column dimension 1, bias (E, w)}; block.l.experts.down.{weight (E, d, w) axis column
///   dimension 2, bias (E, d)}; block.l.shared.{up,down} as feed_forward's, of s columns; block.l.shared.gate.weight (1, d)
///   head.norm.{weight,bias} (d), only where final_norm; head.project_out (w, d), only where w != d;
///   head.word (vocabulary, w) axis vocabulary, unless tied_head
///
/// Norms of kind rms have no bias; qkv, out and the feed-forward's two have one where the configuration says so. SwiGLU and GeGLU: up has
/// 2f rows, the gate's and then the others, fused 2. Where g < heads heads of keys and values serve r = heads / g queries each, or qkv is
/// interleaved (r = 1): qkv has (heads + 2g) * head_size rows, group after group: its r queries, its key, its value (as Megatron-LM lays it
/// out); unit (r + 2) * head_size, fused 1; out's unit is r * head_size. So every axis head has g units, and a query's keys are where the
/// query is.
///
/// Behind all of these, where Config::lora is on, of every target X of every block, with p = Lora::parts, r = Lora::rank:
///   block.l.X.lora_A (p r, inputs of X.weight), block.l.X.lora_B (outputs of X.weight, r)
/// A of out and down is cut as its weight's columns are, B of qkv and up as its weight's rows are; the other halves are whole on every rank
/// and summed. All but adapters is then frozen.
///
/// Block l is layer l+1. Biases of qkv are cut like their matrices; out.bias and down.bias are whole on every rank.
std::vector<Tensor> tensors(const Config&);

/// The lowest layer with a tensor that is trained: no gradient is needed below it. layers() where none is.
int first_trained_layer(const Config&, const std::vector<Tensor>&);

/// Whether the tensor is of an adapter.
bool is_adapter(const Tensor&);

/// Whether a tensor is trained whose gradient the weights' half of the operation makes, adapters' among them: of mlp_backward,
/// attention_backward and head_backward, or one of their halves; true for any other.
bool trains_products(const Config&, const std::vector<Tensor>&, Operation, int layer);
/// The same of the model's own weights alone, without adapters.
bool trains_weights(const Config&, const std::vector<Tensor>&, Operation, int layer);

/// Elements of all tensors, tied ones once.
std::int64_t parameter_count(const Config&);
/// Of these, what a token goes through: all but the experts that its router leaves out.
std::int64_t active_parameter_count(const Config&);
/// Whether the tensor holds all experts of a block, one after the other; a rank of expert parallelism has a part of them.
bool is_of_experts(const Tensor&);

/// Half-open range of logical units (of `units` in all) held by member `index` of a tensor-parallel group of `degree`:
/// balanced, sizes differ by one at most; defined for any degree <= units.
struct UnitRange {
  std::int64_t first = 0, last = 0;
  std::int64_t count() const { return last - first; }
};
constexpr UnitRange share(std::int64_t units, int degree, int index) { return {units * index / degree, units * (index + 1) / degree}; }

}  // namespace flotilla::model
