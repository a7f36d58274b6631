#define FLOTILLA_KERNEL_FILE "elements.inc"
#include "for_element_types.hpp"
