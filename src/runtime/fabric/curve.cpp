#include "curve.hpp"

#include <algorithm>
#include <deque>
#include <utility>

namespace flotilla::fabric {
namespace {

constexpr std::size_t least_sizes = 2;
constexpr int usual_samples = 4, messages_before = 2;  // of a series
constexpr Seconds shortest_slice{1e-4}, least_link{0.3}, shortest_link{1e-3};

}  // namespace

std::vector<Bytes> telling_first(const std::vector<Bytes>& ascending) {
  if (ascending.empty()) return {};
  std::vector<Bytes> order{ascending.front()};
  std::deque<std::pair<std::size_t, std::size_t>> open{{1, ascending.size()}};  // of which none is in the order
  for (; !open.empty(); open.pop_front()) {
    const auto [first, last] = open.front();
    if (first == last) continue;
    const std::size_t middle = first + (last - first - 1) / 2;
    order.push_back(ascending[middle]);
    open.emplace_back(middle + 1, last);
    open.emplace_back(first, middle);
  }
  return order;
}

Seconds time_of_link(Seconds left, int links, int musts) {
  const int fit = std::clamp(static_cast<int>(left / least_link), std::min(musts, links), links);
  return fit == 0 ? Seconds{} : std::max(left / fit, shortest_link);
}

Curve::Curve(std::vector<Bytes> sizes, int series, Seconds end, TimeShares::Clock clock)
    : waiting_{telling_first(sizes)}, series_{series}, end_{end}, clock_{std::move(clock)} {
  std::ranges::reverse(waiting_);
}

std::optional<Curve::Step> Curve::next() {
  while (!waiting_.empty()) {
    const Seconds left = end_ - clock_();
    const Seconds time = std::max(Seconds{}, left / static_cast<double>(waiting_.size()));
    const Bytes size = waiting_.back();
    waiting_.pop_back();
    const Seconds message = expected(size),
                  least = series_ * (messages_before * message + usual_samples * std::max(message, shortest_slice));
    if (steps_ < least_sizes || least <= (waiting_.empty() ? left : left / 2)) {
      const Seconds slice = std::max((time / series_ - messages_before * message) / usual_samples, shortest_slice);
      ++steps_;
      last_ = size;
      return Step{size, time, slice};
    }
  }
  return std::nullopt;
}

void Curve::took(Seconds message) {
  if (steps_ == 1) latency_ = message;
  if (last_ > largest_) largest_ = last_, longest_ = message;
}

/// Larger messages move at the rate of the largest so far at least.
Seconds Curve::expected(Bytes size) const {
  if (largest_.count == 0) return {};
  return std::max(latency_, longest_ * (static_cast<double>(size.count) / static_cast<double>(largest_.count)));
}

}  // namespace flotilla::fabric
