#pragma once
#include <optional>
#include <vector>

#include "flotilla/bench/card.hpp"
#include "flotilla/bench/soak.hpp"
#include "flotilla/files/json.hpp"
#include "node.hpp"

/// What a node did at work: the models trained on it and its hours under load, as parts of a node's report.
namespace flotilla::files::detail {

Node card_node(const std::vector<bench::CardEntry>&);
std::vector<bench::CardEntry> card_of(const Json& list);

Node soak_node(const bench::Soak&);
bench::Soak soak_of(const Json& object);

}  // namespace flotilla::files::detail
