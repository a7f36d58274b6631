#define FLOTILLA_KERNEL_SET avx2
#include "kernel_set.inc"
