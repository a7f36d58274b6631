#pragma once
#include <string>
#include <vector>

#include "flotilla/cluster/cluster.hpp"

namespace flotilla::app {

/// A site's own prices, as they stand on the command line.
struct Prices {
  std::vector<std::string> devices;  ///< "A100-40=2.50USD/h"
  std::vector<std::string> billing;  ///< "A100-40=16units/h"
  std::vector<std::string> egress;   ///< "zone-a:zone-b=0.02USD/GB"
};

/// The profile with these in place of its own. Throws Error{usage} naming the option, for what is not written so, for a type that the
/// profile does not have and for a number without its unit.
cluster::Profile with_prices(cluster::Profile, const Prices&);

}  // namespace flotilla::app
