#pragma once
#include <optional>
#include <string>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/model/operations.hpp"
#include "flotilla/simulate/instruction_cost.hpp"

namespace flotilla::simulate {

/// How far a roofline without any measured efficiency may be off: achieved rates of these operations lie between a third of the peak and
/// all of it, so the middle is within about half (docs/design/forecast.md).
inline constexpr double roofline_error = 0.5;
/// The same, where the efficiency was measured at another tensor-parallel degree.
inline constexpr double scaled_error = 0.15;

/// max(flops / peak, traffic / bandwidth). Throws Error{bad_input} when the profile does not hold the type's figures.
Seconds roofline(const cluster::Profile&, const std::string& device_type, Precision, double flops, Bytes traffic);

/// Measured, else scaled from another degree, else roofline (ProfileCost says more).
Cost operation_cost(const cluster::Profile&, const model::Config&, const std::string& device_type, model::Operation,
                    const model::LayerShape&);

/// Seconds per element of "adamw", "add" or "cast" on a type, in this precision or else any; nullopt when never measured.
std::optional<Cost> element_cost(const cluster::Profile&, const std::string& device_type, const std::string& operation, Precision);

}  // namespace flotilla::simulate
