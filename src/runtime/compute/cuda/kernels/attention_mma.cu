#include "attention_tiles.hpp"
#include "mma.hpp"
#define FLOTILLA_KERNEL_FILE "attention_mma.inc"
#define FLOTILLA_HALF_TYPES_ONLY
#include "for_element_types.hpp"
