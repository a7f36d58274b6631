#include "kernels.hpp"

namespace flotilla::compute::cpu {

#define FLOTILLA_DECLARE_KERNEL_SET(set)         \
  namespace set {                                \
  extern const Kernels<float> float_table;       \
  extern const Kernels<bfloat16> bfloat16_table; \
  extern const Kernels<float16> float16_table;   \
  }
FLOTILLA_DECLARE_KERNEL_SET(baseline)
FLOTILLA_DECLARE_KERNEL_SET(avx2)
FLOTILLA_DECLARE_KERNEL_SET(avx512)
#undef FLOTILLA_DECLARE_KERNEL_SET

namespace {

enum class Set { baseline, avx2, avx512 };

Set choose() {
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has_avx2 && has_avx512 ? Set::avx512 : has_avx2 ? Set::avx2 : Set::baseline;
}

Set chosen() {
  static const Set set = choose();
  return set;
}

}  // namespace

template <>
const Kernels<float>& kernels<float>() {
  return chosen() == Set::avx512 ? avx512::float_table : chosen() == Set::avx2 ? avx2::float_table : baseline::float_table;
}
template <>
const Kernels<bfloat16>& kernels<bfloat16>() {
  return chosen() == Set::avx512 ? avx512::bfloat16_table : chosen() == Set::avx2 ? avx2::bfloat16_table : baseline::bfloat16_table;
}
template <>
const Kernels<float16>& kernels<float16>() {
  return chosen() == Set::avx512 ? avx512::float16_table : chosen() == Set::avx2 ? avx2::float16_table : baseline::float16_table;
}

const char* kernel_set() { return chosen() == Set::avx512 ? "avx512" : chosen() == Set::avx2 ? "avx2" : "baseline"; }

}  // namespace flotilla::compute::cpu
