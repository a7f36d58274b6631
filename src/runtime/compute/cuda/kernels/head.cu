#define FLOTILLA_KERNEL_FILE "head.inc"
#include "for_element_types.hpp"
