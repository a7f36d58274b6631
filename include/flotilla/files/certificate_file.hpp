#pragma once
#include <string>

#include "flotilla/search/planner.hpp"

/// The proof of a plan's bound as JSON: docs/formats/certificate.md.
namespace flotilla::files {

/// Of an answer with a plan and a proof. Indented, ends with a newline; the same answer gives the same text.
std::string certificate_to_json(const search::PlanAnswer&);

}  // namespace flotilla::files
