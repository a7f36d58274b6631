#include "compute/reference_model.hpp"

#include <algorithm>
#include <cmath>

#include "flotilla/base/philox.hpp"
#include "flotilla/base/text.hpp"

namespace flotilla::compute::test {
namespace {

using Vector = std::vector<double>;

/// (rows, columns), row-major.
struct Matrix {
  Matrix(std::size_t r, std::size_t c) : rows{r}, columns{c}, values(r * c) {}
  double& operator()(std::size_t r, std::size_t c) { return values[r * columns + c]; }
  double operator()(std::size_t r, std::size_t c) const { return values[r * columns + c]; }
  std::size_t rows, columns;
  Vector values;
};

enum Site : std::uint64_t { embedding_site, probabilities_site, attention_site, feed_forward_site };

class Reference {
 public:
  Reference(const Case& c, const Values& p) : case_{c}, parameters_{p}, d_{static_cast<std::size_t>(c.model.hidden)} {}

  /// Sum over the sequence's tokens of -log p(target).
  double sequence_loss(const std::int32_t* tokens, std::uint64_t sequence) const {
    Matrix x = embed(tokens, sequence);
    for (int block = 0; block < case_.model.blocks; ++block) x = block_output(x, block, sequence);
    if (case_.model.final_norm) x = normalized(x, "head.norm");
    if (case_.model.projects()) x = linear(x, "head.project_out", "");
    const Matrix logits = linear(x, "embedding.word", "");
    double loss = 0;
    for (std::size_t i = 0; i < logits.rows; ++i) {
      double sum = 0;
      for (std::size_t v = 0; v < logits.columns; ++v) sum += std::exp(logits(i, v));
      loss += std::log(sum) - logits(i, static_cast<std::size_t>(tokens[i + 1]));
    }
    return loss;
  }

 private:
  const Vector& parameter(const std::string& name) const { return parameters_.at(name); }

  /// x W^T + bias.
  Matrix linear(const Matrix& x, const std::string& weight, const std::string& bias) const {
    const Vector& w = parameter(weight);
    const Vector* b = bias.empty() ? nullptr : &parameter(bias);
    Matrix y{x.rows, w.size() / x.columns};
    for (std::size_t i = 0; i < y.rows; ++i)
      for (std::size_t o = 0; o < y.columns; ++o) {
        double sum = b ? (*b)[o] : 0;
        for (std::size_t k = 0; k < x.columns; ++k) sum += x(i, k) * w[o * x.columns + k];
        y(i, o) = sum;
      }
    return y;
  }

  Matrix normalized(const Matrix& x, const std::string& name) const {
    const Vector &weight = parameter(name + ".weight"), &bias = parameter(name + ".bias");
    Matrix y{x.rows, x.columns};
    const double width = static_cast<double>(x.columns);
    for (std::size_t i = 0; i < x.rows; ++i) {
      double mean = 0, variance = 0;
      for (std::size_t j = 0; j < x.columns; ++j) mean += x(i, j) / width;
      for (std::size_t j = 0; j < x.columns; ++j) variance += (x(i, j) - mean) * (x(i, j) - mean) / width;
      for (std::size_t j = 0; j < x.columns; ++j)
        y(i, j) = (x(i, j) - mean) / std::sqrt(variance + case_.model.norm_epsilon) * weight[j] + bias[j];
    }
    return y;
  }

  /// The factor of one element at a dropout site: 0 or 1 / (1 - p).
  double mask(Site site, int layer, std::uint64_t sequence, std::uint64_t head, std::size_t row, std::size_t column) const {
    const double p = site == probabilities_site ? case_.model.attention_dropout : case_.model.dropout;
    if (!case_.training || p <= 0) return 1;
    std::uint64_t purpose = Philox::mix(0x64726f706f757421u ^ static_cast<std::uint64_t>(case_.step));
    purpose = Philox::mix(Philox::mix(purpose ^ static_cast<std::uint64_t>(layer)) ^ site);
    const std::uint64_t group = column / 64 * 16 + column % 16;
    const auto words = Philox{case_.seed, purpose}(group | std::uint64_t{row} << 32, sequence | head << 32);
    return words[column / 16 % 4] < static_cast<std::uint32_t>(p * 0x1p32) ? 0 : 1 / (1 - p);
  }

  Matrix dropped(Matrix x, Site site, int layer, std::uint64_t sequence) const {
    for (std::size_t i = 0; i < x.rows; ++i)
      for (std::size_t j = 0; j < x.columns; ++j) x(i, j) *= mask(site, layer, sequence, 0, i, j);
    return x;
  }

  static Matrix sum(Matrix a, const Matrix& b) {
    for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
    return a;
  }

  Matrix embed(const std::int32_t* tokens, std::uint64_t sequence) const {
    const auto length = static_cast<std::size_t>(case_.length), w = static_cast<std::size_t>(case_.model.embedding_width);
    const Vector &word = parameter("embedding.word"), &position = parameter("embedding.position");
    Matrix words{length, w};
    for (std::size_t i = 0; i < length; ++i)
      for (std::size_t j = 0; j < w; ++j) words(i, j) = word[static_cast<std::size_t>(tokens[i]) * w + j];
    Matrix x = case_.model.projects() ? linear(words, "embedding.project_in", "") : words;
    for (std::size_t i = 0; i < length; ++i)
      for (std::size_t j = 0; j < d_; ++j) x(i, j) += position[(static_cast<std::size_t>(case_.model.position_offset) + i) * d_ + j];
    return dropped(x, embedding_site, 0, sequence);
  }

  Matrix attention(const Matrix& x, int block, std::uint64_t sequence) const {
    const std::string name = text("block.", block, ".attention");
    const Matrix qkv = linear(x, name + ".qkv.weight", name + ".qkv.bias");
    const auto size = static_cast<std::size_t>(case_.model.head_size());
    Matrix output{x.rows, d_};
    for (std::size_t head = 0; head < static_cast<std::size_t>(case_.model.heads); ++head)
      for (std::size_t i = 0; i < x.rows; ++i) attend(qkv, output, block, sequence, head, i, size);
    return linear(output, name + ".out.weight", name + ".out.bias");
  }

  void attend(const Matrix& qkv, Matrix& output, int block, std::uint64_t sequence, std::size_t head, std::size_t i,
              std::size_t size) const {
    Vector p(i + 1);
    double total = 0;
    for (std::size_t k = 0; k <= i; ++k) {
      double score = 0;
      for (std::size_t c = head * size; c < (head + 1) * size; ++c) score += qkv(i, c) * qkv(k, d_ + c);
      total += p[k] = std::exp(score / std::sqrt(static_cast<double>(size)));
    }
    for (std::size_t k = 0; k <= i; ++k) p[k] *= mask(probabilities_site, block + 1, sequence, head, i, k) / total;
    for (std::size_t c = head * size; c < (head + 1) * size; ++c)
      for (std::size_t k = 0; k <= i; ++k) output(i, c) += p[k] * qkv(k, 2 * d_ + c);
  }

  Matrix feed_forward(const Matrix& x, int block) const {
    const std::string name = text("block.", block, ".feed_forward");
    Matrix h = linear(x, name + ".up.weight", name + ".up.bias");
    for (double& v : h.values)
      v = case_.model.activation == model::Activation::relu ? std::max(v, 0.0)
                                                            : 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
    return linear(h, name + ".down.weight", name + ".down.bias");
  }

  Matrix block_output(const Matrix& x, int block, std::uint64_t sequence) const {
    const std::string norm1 = text("block.", block, ".norm1"), norm2 = text("block.", block, ".norm2");
    const bool pre = case_.model.norm == model::NormPlacement::pre;
    const Matrix attended = attention(pre ? normalized(x, norm1) : x, block, sequence);
    Matrix middle = sum(x, dropped(attended, attention_site, block + 1, sequence));
    if (!pre) middle = normalized(middle, norm1);
    const Matrix fed = feed_forward(pre ? normalized(middle, norm2) : middle, block);
    const Matrix end = sum(middle, dropped(fed, feed_forward_site, block + 1, sequence));
    return pre ? end : normalized(end, norm2);
  }

  const Case& case_;
  const Values& parameters_;
  std::size_t d_;
};

}  // namespace

double reference_loss(const Case& c, const Values& parameters, const std::vector<std::int32_t>& tokens) {
  const Reference reference{c, parameters};
  double loss = 0;
  for (int s = 0; s < c.sequences(); ++s)
    loss += reference.sequence_loss(tokens.data() + s * (c.length + 1), static_cast<std::uint64_t>(s));
  return loss / (c.sequences() * c.length);
}

}  // namespace flotilla::compute::test
