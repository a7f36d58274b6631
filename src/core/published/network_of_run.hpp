#pragma once
#include <optional>

#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/published/run.hpp"

namespace flotilla::published {

/// The catalogue's entry of the run's device, with nodes and network as the run states them. Nothing for an unknown device.
std::optional<cluster::CatalogueEntry> entry_of(const Run&, const cluster::Catalogue&);

/// What a communicator's collectives reach between nodes of the run's network, whatever cards these have. 0: the links decide.
BytesPerSecond communicator_rate(const Run&);

}  // namespace flotilla::published
