#pragma once
#include "flotilla/compute/backend.hpp"

namespace flotilla::compute::cpu {

/// What embedded tokens are multiplied with: 1, or sqrt(hidden) rounded to the element type, as Hugging Face's Gemma has it.
float embedding_scale(const Setup&);

}  // namespace flotilla::compute::cpu
