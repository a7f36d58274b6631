#pragma once
#include <string>
#include <vector>

#include "flotilla/cluster/zones.hpp"
#include "flotilla/options/table.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/search/objective.hpp"

/// What joins the zones of a pool: as options say it, as it was measured, or as it is assumed by distance.
namespace flotilla::app {

/// Links as they are written, and who said them.
struct LinkWords {
  std::vector<std::string> words;  ///< "us-east1-b:us-west1-b=10Gbit/s,20ms"
  options::Setting setting;
};

/// Types and zones of a pool, and of a plan's own devices.
std::vector<cluster::TypeInZone> places_of(const search::Pool&);
std::vector<cluster::TypeInZone> places_of(const plan::Plan&);

/// `profile`, which knows the types of the places, with the links of the options in place of measured ones, and assumed ones between zones
/// of which neither the options nor `measured` say anything. A warning names these; they are returned. Links of other zones are refused
/// on the command line, and passed over in a file or the environment, so that a site's list serves any pool. Throws Error{usage,
/// bad_input} of one line for what is not written so.
std::vector<cluster::AssumedLink> join_zones(cluster::Profile& profile, const cluster::Profile& measured,
                                             const std::vector<cluster::TypeInZone>& places, const LinkWords&);

/// The links of the options alone: for zones of one cluster, such as a site's partitions.
void state_links(cluster::Profile& profile, const std::vector<cluster::TypeInZone>& places, const LinkWords&);

/// "us-east1-b:us-west1-b=6.4Gbit/s,20ms".
std::string link_in_words(const cluster::AssumedLink&);

}  // namespace flotilla::app
