#include "app/doctor/rank_groups.hpp"

#include "flotilla/base/error.hpp"

namespace flotilla::app {

std::map<std::string, std::vector<std::size_t>> ranks_by_host(const std::vector<RankFacts>& ranks) {
  std::map<std::string, std::vector<std::size_t>> hosts;
  for (std::size_t r = 0; r < ranks.size(); ++r) hosts[ranks[r].host].push_back(r);
  return hosts;
}

std::string few(const std::set<std::string>& names) {
  constexpr std::size_t most = 4;
  std::string words;
  std::size_t said = 0;
  for (const auto& name : names) {
    if (said++ == most) return text(words, " and ", names.size() - most, " more");
    words += (words.empty() ? "" : ", ") + name;
  }
  return words;
}

}  // namespace flotilla::app
