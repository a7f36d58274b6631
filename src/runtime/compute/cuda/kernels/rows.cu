#define FLOTILLA_KERNEL_FILE "rows.inc"
#include "for_element_types.hpp"
