#pragma once
#include <string>

#include "flotilla/cluster/catalogue.hpp"

/// What a device type has from another one, where only its vendor's figures are known.
namespace flotilla::cluster {

/// Whether products of both take the same kinds of operands, and in half precision reach nearly the same share of the peak (within a tenth)
/// at the same sizes: variants of one device, whose figures were chosen together.
bool same_family(const CatalogueEntry&, const CatalogueEntry&);
/// The name of the first entry of the family.
std::string family_of(const CatalogueEntry&, const Catalogue&);

/// The entry of another family and another peak rate, checked by published runs or measurements and not estimated, that is nearest in peak
/// rate of half precision and memory bandwidth (the sum of the logarithms of their ratios). nullptr where there is none of this kind.
const CatalogueEntry* nearest_relative(const CatalogueEntry&, const Catalogue&);

/// The entry as a new device would have it: sizes, peaks, rates and counts of its data sheets, and every figure of how well these are used
/// from the nearest relative. Its error is `unchecked_error`, that of devices which no run has checked. Throws Error{unavailable} where it
/// has no relative.
CatalogueEntry as_new(const CatalogueEntry&, const Catalogue&);
/// The whole catalogue, each entry as if it and its family had just come out.
Catalogue as_new(const Catalogue&);

/// Of layer times on such a device: docs/measurements/error-bars.md.
inline constexpr double unchecked_error = 0.6;

}  // namespace flotilla::cluster
