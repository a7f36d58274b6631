#include "cudnn_attention.hpp"

#include <limits>

#include "flotilla/base/error.hpp"

// The graphs are those of NVIDIA's guide to attention in cuDNN's graph API: cuDNN knows them by their form.
namespace flotilla::compute::cuda::cudnn {

/// Adds both directions to a graph.
struct AttentionGraph {
  using Tensors = AttentionPlans::Tensors;
  CudnnGraph& g;
  const AttentionProblem& p;
  int type = p.precision == Precision::fp16 ? type_fp16 : type_bf16;
  TensorLayout scores = packed(p.batch, p.heads, p.length, p.length);
  TensorLayout rows{{p.batch, p.heads, p.length, 1}, {p.statistics_batch, p.length, 1, 1}};

  TensorLayout of(std::int64_t heads, const HeadStrides& s) const {
    return {{p.batch, heads, p.length, p.size}, {s.batch, s.head, s.row, 1}};
  }
  TensorLayout transposed(std::int64_t heads, const HeadStrides& s) const {
    return {{p.batch, heads, p.size, p.length}, {s.batch, s.head, 1, s.row}};
  }
  CudnnGraph::Tensor unary(int mode, CudnnGraph::Tensor x, const TensorLayout& layout) {
    const auto y = g.between(layout);
    g.pointwise(mode, x, -1, y);
    return y;
  }
  CudnnGraph::Tensor binary(int mode, CudnnGraph::Tensor x, CudnnGraph::Tensor b, const TensorLayout& layout) {
    const auto y = g.between(layout);
    g.pointwise(mode, x, b, y);
    return y;
  }

  /// Where `mode`(first, second) holds the score, else -inf.
  CudnnGraph::Tensor masked(int mode, CudnnGraph::Tensor score, CudnnGraph::Tensor first, CudnnGraph::Tensor second) {
    const auto seen = g.between(scores, type_boolean), y = g.between(scores);
    g.pointwise(mode, first, second, seen, type_boolean);
    g.select(score, g.scalar(-std::numeric_limits<float>::infinity()), seen, y);
    return y;
  }
  std::pair<CudnnGraph::Tensor, CudnnGraph::Tensor> positions(CudnnGraph::Tensor score) {
    const auto row = g.between(scores, type_int32), column = g.between(scores, type_int32);
    g.positions(2, score, row);
    g.positions(3, score, column);
    return {row, column};
  }
  /// Keys behind the query, and those `window` or more before it, are not seen.
  CudnnGraph::Tensor mask(CudnnGraph::Tensor score) {
    const auto [row, column] = positions(score);
    const auto causal = masked(pointwise::greater_or_equal, score, row, column);
    if (p.window == 0) return causal;
    const auto [query, key] = positions(causal);
    return masked(pointwise::greater, causal, binary(pointwise::add, key, g.scalar(static_cast<float>(p.window)), scores), query);
  }
  CudnnGraph::Tensor scaled_product(CudnnGraph::Tensor query, CudnnGraph::Tensor key_t, CudnnGraph::Tensor scale) {
    const auto product = g.between(scores);
    g.multiply(query, key_t, product);
    return binary(pointwise::multiply, product, scale, scores);
  }
  Tensors forward();
  Tensors backward();
};

AttentionPlans::Tensors AttentionGraph::forward() {
  Tensors t;
  t.query = g.in_memory(of(p.heads, p.query), type);
  t.key = g.in_memory(transposed(p.groups, p.key), type);
  t.value = g.in_memory(of(p.groups, p.value), type);
  t.output = g.in_memory(of(p.heads, p.output), type);
  t.log_sum_exp = g.in_memory(rows, type_fp32);
  const auto score = mask(scaled_product(t.query, t.key, g.scalar(p.scale)));
  const auto most = g.between(packed(p.batch, p.heads, p.length, 1)), sum = g.between(packed(p.batch, p.heads, p.length, 1));
  g.reduce(reduce_max, score, most);
  const auto power = unary(pointwise::exponential, binary(pointwise::subtract, score, most, scores), scores);
  g.reduce(reduce_add, power, sum);
  g.pointwise(pointwise::add, most, unary(pointwise::logarithm, sum, packed(p.batch, p.heads, p.length, 1)), t.log_sum_exp);
  const auto probability = g.between(scores, type);
  g.pointwise(pointwise::divide, power, sum, probability);
  g.multiply(probability, t.value, t.output);
  return t;
}

AttentionPlans::Tensors AttentionGraph::backward() {
  Tensors t;
  t.query = g.in_memory(of(p.heads, p.query), type);
  t.key = g.in_memory(transposed(p.groups, p.key), type);
  t.value = g.in_memory(transposed(p.groups, p.value), type);
  t.output = g.in_memory(of(p.heads, p.output), type);
  t.output_gradient = g.in_memory(of(p.heads, p.output), type);
  t.log_sum_exp = g.in_memory(rows, type_fp32);
  t.dots = g.in_memory(rows, type_fp32);
  t.query_gradient = g.in_memory(of(p.heads, p.query), type);
  t.key_gradient = g.in_memory(of(p.groups, p.key), type);
  t.value_gradient = g.in_memory(of(p.groups, p.value), type);
  const auto scale = g.scalar(p.scale);
  const TensorLayout turned{{p.batch, p.heads, p.length, p.length}, {scores.strides[0], scores.strides[1], 1, p.length}};
  const auto to_groups = [&](CudnnGraph::Tensor turned_scores, CudnnGraph::Tensor x, CudnnGraph::Tensor gradient) {
    if (p.heads == p.groups) return g.multiply(turned_scores, x, gradient);
    const auto of_heads = g.between(packed(p.batch, p.heads, p.length, p.size), type);
    g.multiply(turned_scores, x, of_heads);
    g.reduce(reduce_add, of_heads, gradient);
  };

  // dots = sum of output . output_gradient
  const TensorLayout own_rows = packed(p.batch, p.heads, p.length, 1);
  const auto dot = g.between(own_rows);
  g.reduce(reduce_add,
           binary(pointwise::multiply, t.output_gradient, t.output,
                  {{p.batch, p.heads, p.length, p.size}, {p.heads * p.length * p.size, p.length * p.size, p.heads * p.size, 1}}),
           dot);
  g.pointwise(pointwise::multiply, dot, g.scalar(1), t.dots);

  // probabilities again, and the gradient of values
  const auto score = binary(pointwise::subtract, scaled_product(t.query, t.key, scale), t.log_sum_exp, scores);
  const auto probability = unary(pointwise::exponential, mask(score), scores);
  const auto probability_turned = g.between(turned, type);
  g.reshape(probability, probability_turned);
  to_groups(probability_turned, t.output_gradient, t.value_gradient);

  // the gradient of scores, and of keys
  const auto to_probability = g.between(scores);
  g.multiply(t.output_gradient, t.value, to_probability);
  const auto to_score =
      binary(pointwise::multiply,
             binary(pointwise::multiply, binary(pointwise::subtract, to_probability, t.dots, scores), probability, scores), scale, scores);
  const auto to_score_turned = g.between(turned, type);
  g.reshape(to_score, to_score_turned);
  to_groups(to_score_turned, t.query, t.key_gradient);

  // of queries: in order, or added to an fp32 tensor as blocks come
  const auto key = g.between(of(p.groups, p.key), type);
  g.reshape(t.key, key);
  if (p.deterministic) {
    g.multiply(to_score, key, t.query_gradient);
    return t;
  }
  t.query_sum = g.in_memory(packed(p.batch, p.heads, p.length, p.size), type_fp32);
  g.multiply(to_score, key, t.query_sum);
  g.pointwise(pointwise::identity, t.query_sum, -1, t.query_gradient);
  return t;
}

namespace {

std::int64_t element_count(const AttentionProblem& p) { return p.batch * p.heads * p.length * p.size; }

template <class Add>
ExecutionPlan compile(const AttentionProblem& problem, const GraphTarget& target, Add add, const Engine* engine = nullptr) {
  CudnnGraph graph;
  AttentionGraph attention{graph, problem};
  add(attention);
  return graph.compile(target, engine);
}

/// On sm_100 and sm_103 NVIDIA's frontend names this engine for sums in order; one that a later cuDNN does not have is left to its choice.
ExecutionPlan compile_backward(const AttentionProblem& problem, const GraphTarget& target, bool blackwell, const auto& add) {
  static const Engine ordered{5, {{knob_kernel, 31}, {knob_stages, 2}}};
  if (blackwell && problem.deterministic) try {
      return compile(problem, target, add, &ordered);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unavailable) throw;
    }
  return compile(problem, target, add);
}

constexpr Bytes alignment{16384};

}  // namespace

Bytes attention_workspace(const AttentionProblem& p) {
  constexpr std::int64_t tile = 128, element = 2, sum = 4;
  const std::int64_t rows = align_up(Bytes{p.length}, tile).count, of_heads = p.heads == p.groups ? 0 : 2 * element * element_count(p);
  const std::int64_t queries = p.deterministic ? element * p.batch * p.heads * rows * rows : 2 * sum * element_count(p);
  return align_up(Bytes{of_heads + queries}, alignment.count) + alignment;
}

AttentionPlans::AttentionPlans(const AttentionProblem& problem, const GraphTarget& target, bool blackwell)
    : query_sum_{problem.deterministic ? Bytes{} : align_up(Bytes{4 * element_count(problem)}, 256)},
      forward_{compile(problem, target, [&](AttentionGraph& graph) { forward_tensors_ = graph.forward(); })},
      backward_{compile_backward(problem, target, blackwell, [&](AttentionGraph& graph) { backward_tensors_ = graph.backward(); })} {}

Bytes AttentionPlans::backward_workspace() const { return query_sum_ + backward_.workspace(); }

void AttentionPlans::forward(const Context& context, const AttentionOperands& o, std::byte* workspace) {
  const Tensors& t = forward_tensors_;
  forward_.run(context,
               std::array<std::pair<std::int64_t, void*>, 5>{
                   {{t.query, o.query}, {t.key, o.key}, {t.value, o.value}, {t.output, o.output}, {t.log_sum_exp, o.log_sum_exp}}},
               workspace);
}

void AttentionPlans::backward(const Context& context, const AttentionOperands& o, std::byte* workspace) {
  const Tensors& t = backward_tensors_;
  std::vector<std::pair<std::int64_t, void*>> operands{{t.query, o.query},
                                                       {t.key, o.key},
                                                       {t.value, o.value},
                                                       {t.output, o.output},
                                                       {t.log_sum_exp, o.log_sum_exp},
                                                       {t.output_gradient, o.output_gradient},
                                                       {t.dots, o.dots},
                                                       {t.query_gradient, o.query_gradient},
                                                       {t.key_gradient, o.key_gradient},
                                                       {t.value_gradient, o.value_gradient}};
  if (t.query_sum >= 0) operands.emplace_back(t.query_sum, workspace);
  backward_.run(context, operands, workspace + query_sum_.count);
}

}  // namespace flotilla::compute::cuda::cudnn
