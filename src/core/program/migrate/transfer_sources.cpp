#include "transfer_sources.hpp"

#include <algorithm>
#include <functional>
#include <tuple>

#include "flotilla/base/error.hpp"

namespace flotilla::program {
namespace {

std::map<Rank, std::string> zones_of(const plan::Plan& plan) {
  std::map<Rank, std::string> zones;
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas)
      for (const Rank rank : replica.devices) zones.emplace(rank, replica.zone);
  return zones;
}

}  // namespace

TransferSources::TransferSources(const plan::Plan& from, const plan::Plan& to, const RankLocations& placement)
    : placement_{placement}, old_zones_{zones_of(from)}, new_zones_{zones_of(to)} {}

int TransferSources::distance(Rank holder, Rank rank) const {
  if (placement_.knows(holder) && placement_.knows(rank) && placement_.node[holder.index()] == placement_.node[rank.index()]) return 0;
  return old_zones_.at(holder) == new_zones_.at(rank) ? 1 : 2;
}

void TransferSources::send(Rank rank, std::int64_t bytes) {
  if (sent_.size() <= rank.index()) sent_.resize(rank.index() + 1, 0);
  sent_[rank.index()] += bytes;
}

void TransferSources::fill(std::vector<Rectangle> missing, Rank rank, const std::vector<RankHolding>& holders, Bytes each_element,
                           const Take& take) {
  const auto ask = [&](const RankHolding& holder) {
    missing = without(std::move(missing), holder, [&](const Rectangle& here, const Rectangle& there) {
      take(holder, here, there);
      if (holder.rank != rank) send(holder.rank, here.elements() * each_element.count);
    });
  };
  for (const RankHolding& holder : holders)
    if (holder.rank == rank) ask(holder);
  if (missing.empty()) return;
  using Turn = std::tuple<int, std::int64_t, std::size_t>;  // distance, bytes to send so far, in the list
  std::vector<Turn> turns;
  for (std::size_t i = 0; i < holders.size(); ++i)
    if (holders[i].rank != rank) turns.emplace_back(distance(holders[i].rank, rank), sent(holders[i].rank), i);
  // A heap, since as a rule the first has all.
  std::ranges::make_heap(turns, std::greater<>{});
  while (!missing.empty()) {
    FLOTILLA_ASSERT(!turns.empty(), missing.size(), " rectangles that nobody has");
    std::ranges::pop_heap(turns, std::greater<>{});
    ask(holders[std::get<2>(turns.back())]);
    turns.pop_back();
  }
}

}  // namespace flotilla::program
