#include "flotilla/base/text.hpp"
#include "flotilla/model/config.hpp"

namespace flotilla::model {

std::string fingerprint(const Config& m, int length) {
  return text("hidden ", m.hidden, ", heads ", m.heads, ", feed-forward ", m.feed_forward, ", vocabulary ", m.vocabulary, ", embedding ",
              m.embedding_width, ", ", m.norm == NormPlacement::pre ? "pre" : "post", "-norm, ",
              m.activation == Activation::relu ? "relu" : "gelu", m.final_norm ? ", final norm" : "", m.dropout > 0 ? ", dropout" : "",
              m.attention_dropout > 0 ? ", attention dropout" : "", ", length ", length);
}

std::string_view shape_of(std::string_view fingerprint) {
  for (const std::string_view rest : {", dropout", ", attention dropout", ", length"})
    fingerprint = fingerprint.substr(0, fingerprint.find(rest));
  return fingerprint;
}

}  // namespace flotilla::model
