#include "flotilla/gpu/assignment.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace flotilla::gpu {
namespace {

std::ptrdiff_t threads_near(const RankView& rank, const DevicePlaces& places, const std::string& uuid) {
  const auto place = places.find(uuid);
  if (place == places.end()) return 0;
  return std::ranges::count_if(rank.usable, [&](int thread) { return std::ranges::find(place->second, thread) != place->second.end(); });
}

std::vector<std::size_t> order_of_choice(std::span<const RankView> ranks) {
  std::vector<std::size_t> order(ranks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t r) { return std::tuple{ranks[r].visible.size(), ranks[r].usable.size()}; });
  return order;
}

}  // namespace

std::vector<int> assign_devices(std::span<const RankView> ranks, const DevicePlaces& places) {
  std::vector<int> assigned(ranks.size(), -1);
  std::map<std::string, int> taken;
  for (const std::size_t r : order_of_choice(ranks)) {
    const auto& visible = ranks[r].visible;
    const auto best = std::ranges::min_element(visible, {}, [&](const std::string& uuid) {
      return std::tuple{taken[uuid], -threads_near(ranks[r], places, uuid)};
    });
    if (best == visible.end()) continue;
    ++taken[*best];
    assigned[r] = static_cast<int>(best - visible.begin());
  }
  return assigned;
}

std::map<std::string, std::vector<int>> shared_devices(std::span<const RankView> ranks, std::span<const int> assigned) {
  std::map<std::string, std::vector<int>> users;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (assigned[r] >= 0) users[ranks[r].visible[static_cast<std::size_t>(assigned[r])]].push_back(static_cast<int>(r));
  std::erase_if(users, [](const auto& device) { return device.second.size() < 2; });
  return users;
}

}  // namespace flotilla::gpu
