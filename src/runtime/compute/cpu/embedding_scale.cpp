#include "embedding_scale.hpp"

#include <cmath>

#include "kernels.hpp"

namespace flotilla::compute::cpu {
namespace {

template <class E>
float rounded(float value) {
  E element;
  kernels<E>().narrow(&value, &element, 1);
  kernels<E>().widen(&element, &value, 1);
  return value;
}

}  // namespace

float embedding_scale(const Setup& setup) {
  if (!setup.model.scaled_embedding) return 1;
  const float exact = std::sqrt(static_cast<float>(setup.model.hidden));
  switch (setup.precision) {
    case Precision::fp32: return exact;
    case Precision::bf16: return rounded<bfloat16>(exact);
    case Precision::fp16: break;
  }
  return rounded<float16>(exact);
}

}  // namespace flotilla::compute::cpu
