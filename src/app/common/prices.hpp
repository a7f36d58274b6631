#pragma once
#include <string>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/options/table.hpp"

namespace flotilla::app {

/// A site's own prices, as they are written, and who said them.
struct Prices {
  std::vector<std::string> devices;  ///< "A100-40=2.50USD/h"
  std::vector<std::string> billing;  ///< "A100-40=16units/h"
  std::vector<std::string> egress;   ///< "zone-a:zone-b=0.02USD/GB"
  options::Setting devices_setting, billing_setting, egress_setting;
};

/// The profile with these in place of its own; a price of a type that only the hardware catalogue knows is passed over, so that a site's
/// list serves any pool. Throws Error naming the option (bad_input where it stands in a file, else usage), for what is not written so, for
/// a type that nobody knows and for a number without its unit.
cluster::Profile with_prices(cluster::Profile, const Prices&);

}  // namespace flotilla::app
