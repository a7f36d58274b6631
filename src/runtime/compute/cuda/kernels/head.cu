#include "kernel_base.hpp"

namespace flotilla::compute::cuda {
namespace f32 {
using E = float;
#define FLOTILLA_SUFFIX _f32
#include "head.inc"
#undef FLOTILLA_SUFFIX
}  // namespace f32
namespace bf16 {
using E = bfloat16;
#define FLOTILLA_SUFFIX _bf16
#include "head.inc"
#undef FLOTILLA_SUFFIX
}  // namespace bf16
}  // namespace flotilla::compute::cuda
