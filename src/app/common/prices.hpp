#pragma once
#include <string>
#include <vector>

#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/options/table.hpp"

namespace flotilla::app {

/// A site's own prices, as they are written, and who said them.
struct Prices {
  std::vector<std::string> devices;  ///< "A100-40=2.50USD/h", "A100-40@us-west1-b=2.20USD/h"
  std::vector<std::string> billing;  ///< "A100-40=16units/h", "A100-40@long=12units/h"
  std::vector<std::string> egress;   ///< "zone-a:zone-b=0.02USD/GB"
  options::Setting devices_setting, billing_setting, egress_setting;
};

/// The profile with these in place of its own; a price of a type that only the hardware catalogue knows is passed over, so that a site's
/// list serves any pool. A price of a type replaces those of its zones; a price in a zone goes before. Throws Error naming the option
/// (bad_input where it stands in a file, else usage), for what is not written so, for a type that nobody knows, for a number without its
/// unit, and on the command line for a zone in which none of the places has that type (no places: any).
cluster::Profile with_prices(cluster::Profile, const Prices&, const cluster::Catalogue&,
                             const std::vector<cluster::TypeInZone>& places = {});

}  // namespace flotilla::app
