#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "app/doctor/doctor.hpp"

namespace flotilla::app {

/// host -> its ranks, ascending.
std::map<std::string, std::vector<std::size_t>> ranks_by_host(const std::vector<RankFacts>&);
/// "n1, n2, n3, n4 and 7 more".
std::string few(const std::set<std::string>& names);

}  // namespace flotilla::app
