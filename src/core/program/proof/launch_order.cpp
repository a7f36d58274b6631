#include "flotilla/program/launch_order.hpp"

#include "event_graph.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::program {

LaunchOrder number_launches(const Program& program, const IsLaunched& launched) {
  const RankLists lists{program, working_ranks(program)};
  return EventGraph{lists, launched}.launches();
}

std::vector<Violation> validate_launches(const Program& program, const IsLaunched& launched, const LaunchOrder& order) {
  const RankLists lists{program, working_ranks(program)};
  EventGraph graph{lists, launched};
  for (const auto& [rank, positions] : order) graph.chain(rank, positions);
  const auto [rank, position] = graph.stuck();
  if (rank < 0) return {};
  return {{Violation::Rule::group_order,
           text(lists.describe(rank, position), " would never end: ranks launch what they share in unlike orders")}};
}

}  // namespace flotilla::program
