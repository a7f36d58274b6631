#include "event_graph.hpp"

#include <algorithm>
#include <queue>
#include <utility>

namespace flotilla::program {

EventGraph::EventGraph(const RankLists& lists, IsLaunched launched) : lists_{lists}, launched_{std::move(launched)} {
  for (const int rank : lists.ranks) {
    auto& events = events_[rank];
    events.resize(lists.of.at(rank).size());
    for (int i = 0; i < static_cast<int>(events.size()); ++i)
      if (!is_launched(rank, i)) at(rank, i) = {add_event(), add_event()};
  }
  add_messages();
  add_collectives();
  for (const int rank : lists.ranks) add_local(rank);
}

int EventGraph::add_event() {
  edges_.emplace_back();
  duration_.push_back(0);
  return static_cast<int>(edges_.size()) - 1;
}

void EventGraph::edge(int from, int to) {
  if (from != to) edges_[static_cast<std::size_t>(from)].push_back(to);
}

bool EventGraph::is_launched(int rank, int position) const {
  return launched_ && launched_(Rank{rank}, lists_.instruction(rank, position));
}

void EventGraph::launch(int event, const Place& place) {
  at(place.rank, place.position) = {event, event};
  launches_[event].push_back(place);
}

void EventGraph::add_messages() {
  for (const auto& [pair, both] : lists_.messages())
    for (std::size_t k = 0; k < std::min(both.first.size(), both.second.size()); ++k) {
      const auto &send = both.first[k], &receive = both.second[k];
      if (is_launched(send.rank, send.position)) {
        const int event = add_event();
        launch(event, {send.rank, send.position});
        launch(event, {receive.rank, receive.position});
        continue;
      }
      edge(at(send.rank, send.position).start, at(receive.rank, receive.position).end);
      edge(at(receive.rank, receive.position).start, at(send.rank, send.position).end);
    }
}

void EventGraph::add_collectives() {
  std::map<std::pair<int, int>, int> hubs;  // (group, how many before) -> event
  for (const auto& [rank, collectives] : lists_.collectives()) {
    std::map<int, int> count;
    for (const auto& collective : collectives) {
      const std::pair key{collective.group, count[collective.group]++};
      auto hub = hubs.find(key);
      if (hub == hubs.end()) hub = hubs.emplace(key, add_event()).first;
      if (is_launched(rank, collective.position)) {
        launch(hub->second, {rank, collective.position});
        continue;
      }
      edge(at(rank, collective.position).start, hub->second);
      edge(hub->second, at(rank, collective.position).end);
    }
  }
}

/// Queues whose instructions overlap start them in order; what is launched has an order of its own.
void EventGraph::add_local(int rank) {
  const auto& list = lists_.of.at(rank);
  std::map<Queue, int> previous;
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    const auto& instruction = lists_.instruction(rank, i);
    const Queue queue = instruction.queue;
    const bool launched = is_launched(rank, i), overlaps = !runs_one_at_a_time(queue);
    edge(at(rank, i).start, at(rank, i).end);
    if (queue == Queue::compute) duration_[static_cast<std::size_t>(at(rank, i).end)] = 1;
    for (const int wait : list[static_cast<std::size_t>(i)].waits) edge(at(rank, wait).end, at(rank, i).start);
    if (overlaps && launched) continue;
    if (const auto before = previous.find(queue); before != previous.end())
      edge(overlaps ? at(rank, before->second).start : at(rank, before->second).end, at(rank, i).start);
    previous[queue] = i;
  }
}

void EventGraph::chain(int rank, const std::vector<int>& positions) {
  for (std::size_t i = 1; i < positions.size(); ++i) edge(at(rank, positions[i - 1]).end, at(rank, positions[i]).start);
}

std::vector<int> EventGraph::sorted() const {
  std::vector<int> before(edges_.size()), time(edges_.size()), order;
  for (const auto& list : edges_)
    for (const int to : list) ++before[static_cast<std::size_t>(to)];
  using Ready = std::pair<int, int>;  // time, event
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (std::size_t n = 0; n < edges_.size(); ++n)
    if (before[n] == 0) ready.emplace(0, static_cast<int>(n));
  order.reserve(edges_.size());
  while (!ready.empty()) {
    const auto [now, event] = ready.top();
    ready.pop();
    order.push_back(event);
    for (const int to : edges_[static_cast<std::size_t>(event)]) {
      const auto n = static_cast<std::size_t>(to);
      time[n] = std::max(time[n], now + duration_[n]);
      if (--before[n] == 0) ready.emplace(time[n], to);
    }
  }
  return order;
}

LaunchOrder EventGraph::launches() const {
  LaunchOrder order;
  for (const int event : sorted())
    if (const auto found = launches_.find(event); found != launches_.end())
      for (const auto& place : found->second) order[place.rank].push_back(place.position);
  return order;
}

std::pair<int, int> EventGraph::stuck() const {
  const auto order = sorted();
  if (order.size() == edges_.size()) return {-1, -1};
  std::vector<bool> happens(edges_.size());
  for (const int event : order) happens[static_cast<std::size_t>(event)] = true;
  for (const auto& [rank, events] : events_)
    for (std::size_t i = 0; i < events.size(); ++i)
      if (!happens[static_cast<std::size_t>(events[i].start)] || !happens[static_cast<std::size_t>(events[i].end)])
        return {rank, static_cast<int>(i)};
  return {-1, -1};
}

}  // namespace flotilla::program
