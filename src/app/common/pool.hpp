#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/options/table.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/search/objective.hpp"

/// Devices to plan for, as people write them and as a probe found them.
namespace flotilla::app {

/// Most devices of a pool.
inline constexpr int most_devices = 1'000'000;

/// Every word of --pool, TYPE[@ZONE]=COUNT[/PER_NODE]. A type is one of the library's or of the catalogue's; whatever way it is spelled, it
/// gets the name that the library or an earlier word has for it. Words of one type, zone and node size add up. `option` says where
/// the words stand, for errors: Error of one line that names the word, what was expected and what to write.
search::Pool read_pool(const std::vector<std::string>& words, const options::Setting& option, const cluster::Profile& library,
                       const cluster::Catalogue&);

/// `library` with what it lacks of the pool's types, in nodes of the pool's sizes and without devices of its own: those of a plan for the
/// pool are invented.
cluster::Profile without_devices(cluster::Profile library, const cluster::Catalogue&, const search::Pool&);

/// Throws Error{no_plan} naming `source` where the plan takes devices of a type and zone that the pool does not have in that number.
void require_within(const search::Pool&, const plan::Plan&, const std::string& source);

/// Devices that a plan takes.
std::map<cluster::TypeInZone, std::int64_t> devices_by_place(const plan::Plan&);

/// "A100-40 @ us-central1-a".
std::string place_in_words(const std::string& type, const std::string& zone);

/// Zones of the pool that the library measured no link of while it did of others, in words for a warning; "" where there are none.
std::string unknown_zones(const search::Pool&, const cluster::Profile& library);

}  // namespace flotilla::app
