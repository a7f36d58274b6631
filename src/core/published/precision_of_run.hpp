#pragma once
#include <optional>

#include "flotilla/base/precision.hpp"
#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/program/runtime.hpp"
#include "flotilla/published/run.hpp"

namespace flotilla::published {

/// Of what is not narrow: "fp16 (mixed)", "None (bfloat16)". Products in FP8 or FP4 ("fp8", "FP8-MX", "float8 rowwise", "NVFP4") leave the
/// rest in bf16. Nothing for words that are not known.
std::optional<Precision> precision_of(const Run&);

/// What the run's narrow products gain on the device, and what their conversion moves; nothing where it has none. Throws Error{unavailable}
/// for a device that has no such products.
std::optional<program::NarrowProducts> narrow_products_of(const Run&, const cluster::CatalogueEntry&);

}  // namespace flotilla::published
