#include "compute/reference_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "flotilla/base/philox.hpp"
#include "flotilla/base/text.hpp"

namespace flotilla::compute::test {
namespace {

using Vector = std::vector<double>;

/// A token as an input; as a target, ~token does not count.
std::size_t input_of(std::int32_t token) { return static_cast<std::size_t>(token < 0 ? ~token : token); }

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

  /// Sum over the sequence's targets that count of -log p(target).
  double sequence_loss(const std::int32_t* tokens, std::uint64_t sequence) const {
    Matrix x = embed(tokens, sequence);
    for (int block = 0; block < case_.model.blocks; ++block) x = block_output(x, block, sequence);
    if (case_.model.final_norm) x = normalized(x, "head.norm");
    if (case_.model.projects()) x = linear(x, "head.project_out", "");
    Matrix logits = linear(x, case_.model.tied_head ? "embedding.word" : "head.word", "");
    for (double& logit : logits.values) logit = capped(logit, case_.model.logit_cap);
    double loss = 0;
    for (std::size_t i = 0; i < logits.rows; ++i) {
      if (tokens[i + 1] < 0) continue;
      double sum = 0;
      for (std::size_t v = 0; v < logits.columns; ++v) sum += std::exp(logits(i, v));
      loss += std::log(sum) - logits(i, static_cast<std::size_t>(tokens[i + 1]));
    }
    return loss;
  }

 private:
  static double capped(double x, double cap) { return cap > 0 ? cap * std::tanh(x / cap) : x; }

  const Vector& parameter(const std::string& name) const { return parameters_.at(name); }

  /// The name of a bias, or nothing where the model has none.
  static std::string bias_if(bool present, const std::string& name) { return present ? name : std::string{}; }

  /// x W^T + bias.
  Matrix linear(const Matrix& x, const std::string& weight, const std::string& bias) const {
    const Vector& w = parameter(weight);
    const Vector* b = bias.empty() ? nullptr : &parameter(bias);
    Matrix y{x.rows, w.size() / x.columns};
    constexpr std::size_t together = 8;  // rows whose sums do not wait for each other
    Vector inputs(together * x.columns);
    for (std::size_t first = 0; first < y.rows; first += together) {
      const std::size_t rows = std::min(together, y.rows - first);
      for (std::size_t k = 0; k < x.columns; ++k)
        for (std::size_t i = 0; i < rows; ++i) inputs[k * together + i] = x(first + i, k);
      for (std::size_t o = 0; o < y.columns; ++o) {
        std::array<double, together> sums;
        sums.fill(b ? (*b)[o] : 0);
        for (std::size_t k = 0; k < x.columns; ++k)
          for (std::size_t i = 0; i < together; ++i) sums[i] += inputs[k * together + i] * w[o * x.columns + k];
        for (std::size_t i = 0; i < rows; ++i) y(first + i, o) = sums[i];
      }
    }
    for (const auto linear : case_.model.lora.targets)
      if (weight.ends_with(text(model::to_string(linear), ".weight"))) add_adapter(x, weight.substr(0, weight.size() - 6), linear, y);
    return y;
  }

  /// Which of the adapters an output belongs to: of queries, keys and values; of gate and up.
  std::size_t part(model::Linear linear, std::size_t output, std::size_t outputs) const {
    if (case_.model.lora.parts(linear) == 1) return 0;
    if (linear == model::Linear::up) return output < outputs / 2 ? 0 : 1;
    for (std::size_t head = 0; head < static_cast<std::size_t>(case_.model.heads); ++head) {
      const auto size = static_cast<std::size_t>(case_.model.head_size());
      if (output - place(head).query < size) return 0;
      if (output - place(head).key < size) return 1;
    }
    return 2;
  }

  /// y += alpha / rank (x A^T) B^T
  void add_adapter(const Matrix& x, const std::string& name, model::Linear linear, Matrix& y) const {
    const Vector &a = parameter(name + "lora_A"), &b = parameter(name + "lora_B");
    const auto rank = static_cast<std::size_t>(case_.model.lora.rank);
    Vector low(a.size() / x.columns);  // of a row: (part, rank)
    for (std::size_t i = 0; i < y.rows; ++i) {
      for (std::size_t r = 0; r < low.size(); ++r) {
        low[r] = 0;
        for (std::size_t k = 0; k < x.columns; ++k) low[r] += x(i, k) * a[r * x.columns + k];
      }
      for (std::size_t o = 0; o < y.columns; ++o)
        for (std::size_t r = 0, first = part(linear, o, y.columns) * rank; r < rank; ++r)
          y(i, o) += case_.model.lora.alpha / static_cast<double>(rank) * low[first + r] * b[o * rank + r];
    }
  }

  Matrix normalized(const Matrix& x, const std::string& name) const {
    const bool rms = case_.model.norm_kind == model::NormKind::rms;
    const Vector& weight = parameter(name + ".weight");
    const Vector bias = rms ? Vector(x.columns, 0.0) : parameter(name + ".bias");
    Matrix y{x.rows, x.columns};
    const double width = static_cast<double>(x.columns);
    for (std::size_t i = 0; i < x.rows; ++i) {
      double mean = 0, variance = 0;
      for (std::size_t j = 0; j < x.columns && !rms; ++j) mean += x(i, j) / width;
      for (std::size_t j = 0; j < x.columns; ++j) variance += (x(i, j) - mean) * (x(i, j) - mean) / width;
      for (std::size_t j = 0; j < x.columns; ++j)
        y(i, j) = (x(i, j) - mean) / std::sqrt(variance + case_.model.norm_epsilon) * (offset() + weight[j]) + bias[j];
    }
    return y;
  }

  double offset() const { return case_.model.norm_offset ? 1 : 0; }

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
    const Vector& token_embedding = parameter("embedding.word");
    Matrix words{length, w};
    for (std::size_t i = 0; i < length; ++i)
      for (std::size_t j = 0; j < w; ++j)
        words(i, j) =
            token_embedding[input_of(tokens[i]) * w + j] * (case_.model.scaled_embedding ? std::sqrt(static_cast<double>(d_)) : 1);
    Matrix x = case_.model.projects() ? linear(words, "embedding.project_in", "") : words;
    if (case_.model.embedding_norm) x = normalized(x, "embedding.norm");
    if (!case_.model.has_position_table()) return dropped(x, embedding_site, 0, sequence);
    const Vector& position = parameter("embedding.position");
    for (std::size_t i = 0; i < length; ++i)
      for (std::size_t j = 0; j < d_; ++j)
        x(i, j) += position[(static_cast<std::size_t>(case_.model.position_offset) + i - document_start(sequence, i)) * d_ + j];
    return dropped(x, embedding_site, 0, sequence);
  }

  std::size_t document_start(std::uint64_t sequence, std::size_t i) const {
    if (case_.starts.empty()) return 0;
    return static_cast<std::size_t>(case_.starts.at(static_cast<std::size_t>(sequence) * static_cast<std::size_t>(case_.length) + i));
  }

  /// Rows of the qkv tensor where a head's query, and its group's key and value, begin.
  struct Place {
    std::size_t query, key, value;
  };
  Place place(std::size_t head) const {
    const auto size = static_cast<std::size_t>(case_.model.head_size()),
               queries = static_cast<std::size_t>(case_.model.queries_per_group());
    const std::size_t all = static_cast<std::size_t>(case_.model.heads) * size;
    if (!case_.model.shares_keys() && !case_.model.interleaved_qkv) return {head * size, all + head * size, 2 * all + head * size};
    const std::size_t group = head / queries * (queries + 2) * size;
    return {group + head % queries * size, group + queries * size, group + (queries + 1) * size};
  }

  /// Radians of a pair of columns at a position (Hugging Face's default, linear, llama3 and yarn kinds).
  double angle(int block, std::size_t position, std::size_t pair) const {
    const auto& r = case_.model.rotary;
    const int columns = r.width > 0 ? r.width : case_.model.head_size();
    const bool local = r.window_theta > 0 && case_.model.window(block) > 0;
    double speed = 1 / std::pow(local ? r.window_theta : r.theta, 2.0 * static_cast<double>(pair) / columns);
    if (local || r.linear) return static_cast<double>(position) * speed / (local ? 1 : r.factor);
    if (r.yarn) {  // the paper's gamma, with the bounds cut to whole pairs as published models were trained
      const auto pair_of = [&](double turns) {
        return columns * std::log(r.original_positions / (turns * 2 * M_PI)) / (2 * std::log(r.theta));
      };
      const double low = std::max(0.0, std::floor(pair_of(r.high_frequency))),
                   high = std::min(columns - 1.0, std::ceil(pair_of(r.low_frequency)));
      const double ramp = (static_cast<double>(pair) - low) / (high == low ? 0.001 : high - low),
                   gamma = 1 - std::min(1.0, std::max(0.0, ramp));
      return static_cast<double>(position) * speed * (gamma + (1 - gamma) / r.factor);
    }
    const double wave = 2 * M_PI / speed, longest = r.original_positions / r.low_frequency,
                 shortest = r.original_positions / r.high_frequency;
    if (r.factor != 1 && wave > longest) {
      speed /= r.factor;
    } else if (r.factor != 1 && wave >= shortest) {
      const double smooth = (r.original_positions / wave - r.low_frequency) / (r.high_frequency - r.low_frequency);
      speed = (1 - smooth) * speed / r.factor + smooth * speed;
    }
    return static_cast<double>(position) * speed;
  }

  double yarn_length(int block) const {
    const auto& r = case_.model.rotary;
    if (!r.yarn || (r.window_theta > 0 && case_.model.window(block) > 0)) return 1;
    return r.attention_factor > 0 ? r.attention_factor : 0.1 * std::log(r.factor) + 1;
  }

  /// One head's vector of one token, normed by `norm` and turned by its position.
  Vector turned(const Matrix& qkv, int block, std::size_t i, std::size_t position, std::size_t first, const std::string& norm) const {
    const auto size = static_cast<std::size_t>(case_.model.head_size());
    Vector v(size);
    for (std::size_t c = 0; c < size; ++c) v[c] = qkv(i, first + c);
    if (case_.model.query_key_norms) {
      double squares = 0;
      for (const double x : v) squares += x * x / static_cast<double>(size);
      for (std::size_t c = 0; c < size; ++c) v[c] *= (offset() + parameter(norm)[c]) / std::sqrt(squares + case_.model.norm_epsilon);
    }
    if (!case_.model.rotates()) return v;
    const std::size_t half = (case_.model.rotary.width > 0 ? static_cast<std::size_t>(case_.model.rotary.width) : size) / 2;
    Vector turned = v;
    for (std::size_t c = 0; c < half; ++c) {
      const double a = angle(block, position, c);
      const double length = yarn_length(block);
      turned[c] = length * (v[c] * std::cos(a) - v[c + half] * std::sin(a));
      turned[c + half] = length * (v[c + half] * std::cos(a) + v[c] * std::sin(a));
    }
    return turned;
  }

  Matrix attention(const Matrix& x, int block, std::uint64_t sequence) const {
    const std::string name = text("block.", block, ".attention");
    const Matrix qkv = linear(x, name + ".qkv.weight", bias_if(case_.model.qkv_bias, name + ".qkv.bias"));
    Matrix output{x.rows, static_cast<std::size_t>(case_.model.heads * case_.model.head_size())};
    for (std::size_t head = 0; head < static_cast<std::size_t>(case_.model.heads); ++head) {
      std::vector<Vector> keys;
      for (std::size_t i = 0; i < x.rows; ++i) {
        keys.push_back(turned(qkv, block, i, i - document_start(sequence, i), place(head).key, name + ".key_norm.weight"));
        attend(qkv, keys, output, block, sequence, head, i);
      }
    }
    return linear(output, name + ".out.weight", bias_if(case_.model.attention_output_bias, name + ".out.bias"));
  }

  void attend(const Matrix& qkv, const std::vector<Vector>& keys, Matrix& output, int block, std::uint64_t sequence, std::size_t head,
              std::size_t i) const {
    const auto size = static_cast<std::size_t>(case_.model.head_size()), window = static_cast<std::size_t>(case_.model.window(block));
    const std::size_t start = document_start(sequence, i), first = std::max(start, window > 0 && i + 1 > window ? i + 1 - window : 0);
    const Vector query = turned(qkv, block, i, i - start, place(head).query, text("block.", block, ".attention.query_norm.weight"));
    Vector p(i + 1);
    double total = 0;
    for (std::size_t k = first; k <= i; ++k) {
      double score = 0;
      for (std::size_t c = 0; c < size; ++c) score += query[c] * keys[k][c];
      if (case_.model.scaled_scores) score /= std::sqrt(case_.model.score_width > 0 ? case_.model.score_width : static_cast<double>(size));
      score = capped(score, case_.model.score_cap);
      if (case_.model.alibi) score -= slope(static_cast<int>(head)) * static_cast<double>(i - k);
      total += p[k] = std::exp(score);
    }
    for (std::size_t k = first; k <= i; ++k) p[k] *= mask(probabilities_site, block + 1, sequence, head, i, k) / total;
    for (std::size_t c = 0; c < size; ++c)
      for (std::size_t k = first; k <= i; ++k) output(i, head * size + c) += p[k] * qkv(k, place(head).value + c);
  }

  /// As Press et al. 2022 choose them: geometric sequences, that of the next power of two filling in what is missing.
  double slope(int head) const {
    int power = 1;
    while (power * 2 <= case_.model.heads) power *= 2;
    if (head < power) return std::pow(std::pow(2, -8.0 / power), head + 1);
    return std::pow(std::pow(2, -8.0 / (2 * power)), 2 * (head - power) + 1);
  }

  double activated(double v) const {
    switch (case_.model.activation) {
      case model::Activation::relu: return std::max(v, 0.0);
      case model::Activation::gelu: return 0.5 * v * std::erfc(-v / std::sqrt(2));
      case model::Activation::swiglu: return v / (1 + std::exp(-v));
      default: return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
    }
  }

  Matrix feed_forward(const Matrix& x, int block) const {
    const std::string name = text("block.", block, ".feed_forward");
    const Matrix up = linear(x, name + ".up.weight", bias_if(case_.model.feed_forward_bias, name + ".up.bias"));
    Matrix h{x.rows, static_cast<std::size_t>(case_.model.feed_forward)};
    for (std::size_t i = 0; i < h.rows; ++i)
      for (std::size_t j = 0; j < h.columns; ++j) h(i, j) = activated(up(i, j)) * (case_.model.gated() ? up(i, h.columns + j) : 1);
    return linear(h, name + ".down.weight", bias_if(case_.model.feed_forward_bias, name + ".down.bias"));
  }

  Matrix block_output(const Matrix& x, int block, std::uint64_t sequence) const {
    const std::string norm1 = text("block.", block, ".norm1"), norm2 = text("block.", block, ".norm2");
    const bool pre = case_.model.norm == model::NormPlacement::pre;
    Matrix attended = attention(pre ? normalized(x, norm1) : x, block, sequence);
    if (case_.model.output_norms) attended = normalized(attended, text("block.", block, ".attention.output_norm"));
    Matrix middle = sum(x, dropped(attended, attention_site, block + 1, sequence));
    if (!pre) middle = normalized(middle, norm1);
    Matrix fed = feed_forward(pre ? normalized(case_.model.parallel_residual ? x : middle, norm2) : middle, block);
    if (case_.model.output_norms) fed = normalized(fed, text("block.", block, ".feed_forward.output_norm"));
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
