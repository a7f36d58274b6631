#define FLOTILLA_KERNEL_FILE "tokens.inc"
#include "for_element_types.hpp"
