#include "flotilla/comm/world.hpp"

#include <algorithm>

#include "flotilla/base/text.hpp"
#include "flotilla/mpi/session.hpp"

namespace flotilla::comm {

World::World(const mpi::Communicator& all, Seconds deadline)
    : messages_{all.duplicate(deadline)},
      reduce_{all.duplicate(deadline)},
      control_{all.duplicate(deadline)},
      watch_{all.duplicate(deadline)},
      hosts_{mpi::all_gather_strings(control_, mpi::host_name(), deadline)} {
  const auto tags = mpi::all_gather(control_, all.largest_tag(), deadline);
  largest_tag_ = *std::min_element(tags.begin(), tags.end());
}

std::string World::name(Rank r) const { return text("rank ", r, " on ", host(r)); }

std::string World::names(std::span<const Rank> ranks, std::size_t most) const {
  std::string line;
  for (std::size_t i = 0; i < std::min(ranks.size(), most); ++i) line += (i > 0 ? ", " : "") + name(ranks[i]);
  if (ranks.size() > most) line += text(" and ", ranks.size() - most, " more");
  return line;
}

std::vector<Rank> World::neighbours() const {
  std::vector<Rank> found;
  for (int r = 0; r < size(); ++r)
    if (host(Rank{r}) == host(rank())) found.push_back(Rank{r});
  return found;
}

}  // namespace flotilla::comm
