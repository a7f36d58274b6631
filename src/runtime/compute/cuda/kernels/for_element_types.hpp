// No guard: includes FLOTILLA_KERNEL_FILE once for each element type; with FLOTILLA_HALF_TYPES_ONLY for those of 16 bits.
#include "kernel_base.hpp"

namespace flotilla::compute::cuda {
#if !defined(FLOTILLA_HALF_TYPES_ONLY)
namespace f32 {
using E = float;
#define FLOTILLA_SUFFIX _f32
#include FLOTILLA_KERNEL_FILE
#undef FLOTILLA_SUFFIX
}  // namespace f32
#endif
namespace bf16 {
using E = bfloat16;
#define FLOTILLA_SUFFIX _bf16
#include FLOTILLA_KERNEL_FILE
#undef FLOTILLA_SUFFIX
}  // namespace bf16
namespace f16 {
using E = float16;
#define FLOTILLA_SUFFIX _f16
#include FLOTILLA_KERNEL_FILE
#undef FLOTILLA_SUFFIX
}  // namespace f16
}  // namespace flotilla::compute::cuda
#undef FLOTILLA_HALF_TYPES_ONLY
#undef FLOTILLA_KERNEL_FILE
