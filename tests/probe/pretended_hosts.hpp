#pragma once
#include <string>
#include <vector>

#include "flotilla/comm/agree.hpp"
#include "flotilla/mpi/session.hpp"
#include "support/waiting.hpp"

namespace flotilla::fixture {

inline const comm::World& world() {
  static mpi::Session session;
  static const comm::World all{session.world(), flotilla::tests::hang_bound()};
  return all;
}

/// Every rank on a host of its own, dealt to so many zones (0: of no name), so that links between them are measured; what carries messages
/// is this machine's memory, so nothing is said of what is found: ranks that are more than its cores hold each other up.
inline std::vector<cluster::Device> pretended(int zones) {
  std::vector<cluster::Device> devices;
  for (int r = 0; r < world().size(); ++r)
    devices.push_back({Rank{r}, "cpu", "n" + std::to_string(r), zones > 0 ? "z" + std::to_string(r % zones) : "", 0, 1});
  return devices;
}

}  // namespace flotilla::fixture
