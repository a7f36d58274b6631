#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace flotilla::inference {

/// How the next token is chosen from its logits: they are divided by the temperature, all but the `top_k` likeliest tokens are left out,
/// then all but the fewest likeliest whose probability is at least `top_p` together (Holtzman et al. 2020); one of the rest is drawn.
struct SamplingOptions {
  double temperature = 0;  ///< 0: the likeliest token
  int top_k = 0;           ///< 0: all
  double top_p = 1;
  std::uint64_t seed = 1;
};

/// Token number `index` of the text, a pure function of its arguments. Of equally likely tokens the lower number comes first.
std::int32_t choose_token(std::span<const float> logits, const SamplingOptions&, std::int64_t index);

}  // namespace flotilla::inference
