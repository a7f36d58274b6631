#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace flotilla::probe {

/// Token ids, 0 ... vocabulary - 1, as often as text has them: a token of rank r (from 1) has a share in proportion to 1 / (r + 2.7), the
/// Zipf-Mandelbrot law of words (Piantadosi 2014, "Zipf's word frequency law in natural language"). Of 50,257 tokens, the most frequent is
/// one in 36. Gradients of a token's rows are added up one after the other on GPUs, so that the most frequent token decides how long that
/// takes. Ranks lie all over the ids. The same ids at every call. `vocabulary` is at least 1.
std::vector<std::int32_t> text_tokens(int vocabulary, std::size_t count);

}  // namespace flotilla::probe
