#pragma once
#include "flotilla/model/config.hpp"

namespace flotilla::model {

/// Whether block_end_forward keeps what its way back needs, the input of a norm: where a block is recomputed, it runs again.
inline bool end_keeps(const Config& c) { return c.norm == NormPlacement::post || c.output_norms; }

}  // namespace flotilla::model
