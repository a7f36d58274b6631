#define FLOTILLA_KERNEL_SET avx512
#include "kernel_set.inc"
