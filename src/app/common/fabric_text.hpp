#pragma once
#include <string>
#include <vector>

#include "app/common/table.hpp"
#include "flotilla/bench/fabric_links.hpp"

namespace flotilla::app {

/// What the network can do beside what MPI makes of it, a row for each link; "" where there is none.
std::string fabric_text(const std::vector<bench::FabricLink>&, const Style& = {});

}  // namespace flotilla::app
