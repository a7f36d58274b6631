#include "flotilla/base/text.hpp"
#include "flotilla/model/config.hpp"

namespace flotilla::model {

namespace {

const char* spelling(Activation a) {
  switch (a) {
    case Activation::relu: return "relu";
    case Activation::swiglu: return "swiglu";
    case Activation::geglu: return "geglu";
    case Activation::gelu: return "exact gelu";
    case Activation::gelu_tanh: break;
  }
  return "gelu";
}

std::string of_experts(const Config& m) {
  const Experts& x = m.experts;
  std::string said = text(", ", x.count, " experts of ", x.width, ", ", x.per_token, " a token");
  if (x.shared_width > 0) said += text(", ", x.shared_width, " shared");
  if (!x.dense_blocks.empty()) said += text(", ", x.dense_blocks.size(), " of ", m.blocks, " blocks dense");
  return said;
}

/// What newer families have; nothing of it is said of a model without, whose fingerprint is as it always was.
std::string particulars(const Config& m) {
  std::string said;
  if (m.shares_keys()) said += text(", ", m.groups(), " key and value heads");
  if (m.norm_kind == NormKind::rms) said += ", rms";
  if (m.rotates()) said += ", rotary";
  if (m.rotary.width > 0) said += text(" in ", m.rotary.width);
  if (m.head_width > 0) said += text(", heads of ", m.head_width);
  if (m.query_key_norms) said += ", head norms";
  if (m.alibi) said += ", alibi";
  if (m.embedding_norm) said += ", embedding norm";
  if (m.output_norms) said += ", output norms";
  if (m.score_cap > 0) said += ", capped scores";
  if (m.logit_cap > 0) said += ", capped logits";
  if (m.parallel_residual) said += ", parallel residual";
  for (const int window : m.windows) said += text(", window ", window);
  if (!m.qkv_bias) said += ", no qkv bias";
  if (!m.attention_output_bias) said += ", no output bias";
  if (!m.feed_forward_bias) said += ", no feed-forward bias";
  if (!m.tied_head) said += ", head apart";
  if (m.wide_head_norms) said += ", over all heads";
  if (m.experts.on()) said += of_experts(m);
  return said;
}

}  // namespace

std::string fingerprint(const Config& m, int length) {
  return text("hidden ", m.hidden, ", heads ", m.heads, ", feed-forward ", m.feed_forward, ", vocabulary ", m.vocabulary, ", embedding ",
              m.embedding_width, ", ", m.norm == NormPlacement::pre ? "pre" : "post", "-norm, ", spelling(m.activation),
              m.final_norm ? ", final norm" : "", particulars(m), m.dropout > 0 ? ", dropout" : "",
              m.attention_dropout > 0 ? ", attention dropout" : "", ", length ", length);
}

std::string_view shape_of(std::string_view fingerprint) {
  for (const std::string_view rest : {", dropout", ", attention dropout", ", length"})
    fingerprint = fingerprint.substr(0, fingerprint.find(rest));
  return fingerprint;
}

}  // namespace flotilla::model
