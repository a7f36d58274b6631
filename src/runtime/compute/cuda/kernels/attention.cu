#include "attention_tiles.hpp"
#define FLOTILLA_KERNEL_FILE "attention.inc"
#include "for_element_types.hpp"
