#define FLOTILLA_KERNEL_SET baseline
#include "kernel_set.inc"
