#pragma once
// Private: what must happen before what, on all ranks.
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "flotilla/program/launch_order.hpp"
#include "rank_lists.hpp"

namespace flotilla::program {

/// Each instruction has a start and an end. A message ends when both ends have started (nobody may count on a library's buffer), a
/// collective when all members have. What devices launch is one event for all ranks that take part: it starts when all can.
class EventGraph {
 public:
  /// `launched` may be empty: nothing is.
  EventGraph(const RankLists&, IsLaunched launched);

  /// A rank's launches run one after the other in this order, as on a device that one of them fills.
  void chain(int rank, const std::vector<int>& positions);

  /// The launches of every rank in the order in which they become possible where each computation takes one unit of time; the same choice
  /// among equals everywhere. Some are missing where there is a cycle.
  LaunchOrder launches() const;
  /// (rank, position) of an instruction that can never start or end, or (-1, -1).
  std::pair<int, int> stuck() const;

 private:
  struct Events {
    int start = -1, end = -1;
  };
  struct Place {
    int rank, position;
  };
  int add_event();
  void edge(int from, int to);
  bool is_launched(int rank, int position) const;
  Events& at(int rank, int position) { return events_.at(rank)[static_cast<std::size_t>(position)]; }
  const Events& at(int rank, int position) const { return events_.at(rank)[static_cast<std::size_t>(position)]; }
  void launch(int event, const Place&);
  void add_messages();
  void add_collectives();
  void add_local(int rank);
  /// In an order that respects the edges, as far as there is one.
  std::vector<int> sorted() const;

  const RankLists& lists_;
  const IsLaunched launched_;
  std::map<int, std::vector<Events>> events_;  ///< by rank and position
  std::vector<std::vector<int>> edges_;
  std::vector<int> duration_;
  std::map<int, std::vector<Place>> launches_;  ///< by event: who takes part
};

}  // namespace flotilla::program
