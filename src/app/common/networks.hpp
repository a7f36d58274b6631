#pragma once
#include <string>
#include <vector>

#include "flotilla/cluster/node_networks.hpp"
#include "flotilla/cluster/zones.hpp"
#include "flotilla/options/table.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/search/objective.hpp"

/// What joins the nodes of a pool, inside its zones and between them: as options say it, as it was measured, or as it is assumed.
namespace flotilla::app {

/// An option's words, and who said them.
struct OptionWords {
  std::vector<std::string> words;
  options::Setting setting;
};

/// Networks as they are written.
struct NetworkWords {
  OptionWords links;  ///< "us-east1-b:us-west1-b=10Gbit/s,20ms"; of a zone and itself: inside it
  OptionWords nics;   ///< "A100-80@gpu=2x200Gbit/s"
  OptionWords trees;  ///< "gpu=2:1"
};

/// What nobody said or measured, and what stands in.
struct AssumedNetworks {
  std::vector<cluster::AssumedLink> links;  ///< between zones
  std::vector<cluster::NodeNetwork> nodes;  ///< inside zones
};

/// Types and zones of a pool, and of a plan's own devices.
std::vector<cluster::TypeInZone> places_of(const search::Pool&);
std::vector<cluster::TypeInZone> places_of(const plan::Plan&);

/// `profile`, which knows the types of the places, with what the options say in place of what was measured, and with assumptions where
/// neither they nor `measured` say anything. Between zones a warning names these, unless the zones are partitions of `one_cluster`. What is
/// said of other zones and types is refused on the command line, and passed over in a file or the environment, so that a site's list
/// serves any pool. Throws Error{usage, bad_input} of one line for what is not written so.
AssumedNetworks join_nodes(cluster::Profile& profile, const cluster::Profile& measured, const std::vector<cluster::TypeInZone>& places,
                           const NetworkWords&, bool one_cluster = false);

/// "us-east1-b:us-west1-b=6.4Gbit/s,20ms".
std::string link_in_words(const cluster::AssumedLink&);
/// "8 x 200Gbit/s for a node of A100-80".
std::string network_in_words(const cluster::NodeNetwork&);

}  // namespace flotilla::app
