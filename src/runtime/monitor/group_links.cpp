#include "group_links.hpp"

#include <algorithm>
#include <set>

#include "flotilla/base/error.hpp"

namespace flotilla::monitor {
namespace {

constexpr double as_slow_as_the_worst = 3;  // at most so many times faster than it

class Square {
 public:
  Square(std::size_t count, const std::vector<double>& seconds, const std::vector<double>& forecast)
      : count_{count}, seconds_{seconds}, factors_(count * count, 0) {
    FLOTILLA_ASSERT(seconds.size() == count * count && forecast.size() == seconds.size(), seconds.size(), " of ", count);
    for (std::size_t i = 0; i < seconds.size(); ++i)
      if (i / count != i % count && seconds[i] > 0 && forecast[i] > 0) factors_[i] = seconds[i] / forecast[i];
    double best = 0;
    for (const double factor : factors_)
      if (factor > 0) best = best > 0 ? std::min(best, factor) : factor;
    usual_ = std::max(1.0, best);
    for (std::size_t i = 0; i < factors_.size(); ++i)
      if (candidate(i)) {
        longest_ = std::max(longest_, seconds[i]);
        largest_ = std::max(largest_, factors_[i]);
      }
  }
  std::size_t count() const { return count_; }
  double at(std::size_t a, std::size_t b) const { return factors_[a * count_ + b] / usual_; }
  bool known(std::size_t a, std::size_t b) const { return at(a, b) > 0; }
  bool slow(std::size_t a, std::size_t b) const {
    const std::size_t i = a * count_ + b;
    return candidate(i) && (as_slow_as_the_worst * seconds_[i] >= longest_ || as_slow_as_the_worst * factors_[i] >= largest_);
  }

 private:
  bool candidate(std::size_t i) const { return factors_[i] > 0 && factors_[i] >= SelfCheck::slow_link * usual_; }

  std::size_t count_;
  const std::vector<double>& seconds_;
  std::vector<double> factors_;  ///< 0: not known
  double usual_ = 1, longest_ = 0, largest_ = 0;
};

/// The least factor of an end's pairs; 0 where one of them is not slow, or fewer than two are known.
double all_slow(const Square& square, std::size_t end) {
  double least = 0;
  int known = 0;
  for (std::size_t other = 0; other < square.count(); ++other) {
    if (!square.known(end, other)) continue;
    if (!square.slow(end, other)) return 0;
    least = ++known == 1 ? square.at(end, other) : std::min(least, square.at(end, other));
  }
  return known >= 2 ? least : 0;
}

}  // namespace

std::vector<Rank> ends_of_hosts(const std::vector<Rank>& members, const std::function<std::string(Rank)>& host) {
  std::vector<Rank> ends;
  std::set<std::string> seen;
  for (const Rank member : members)
    if (seen.insert(host(member)).second) ends.push_back(member);
  return ends;
}

std::vector<std::vector<std::pair<int, int>>> rounds_of_pairs(int count) {
  std::vector<std::vector<std::pair<int, int>>> rounds;
  const int seats = count + count % 2;  // of an odd number one sits out
  for (int round = 0; round + 1 < seats; ++round) {
    auto& pairs = rounds.emplace_back();
    // The last stays, the others move on by one each round.
    const auto at = [&](int seat) { return seat == seats - 1 ? seat : (seat + round) % (seats - 1); };
    for (int seat = 0; seat < seats / 2; ++seat) {
      const int a = at(seat), b = at(seats - 1 - seat);
      if (std::max(a, b) < count) pairs.emplace_back(std::min(a, b), std::max(a, b));
    }
  }
  return rounds;
}

std::vector<SlowLink> slow_links(const std::vector<Rank>& ends, const std::vector<double>& seconds, const std::vector<double>& forecast) {
  const Square square{ends.size(), seconds, forecast};
  std::vector<SlowLink> found;
  std::vector<bool> named(ends.size(), false);
  if (ends.size() < 3) return found;
  for (std::size_t end = 0; end < ends.size(); ++end)
    if (const double factor = all_slow(square, end); factor > 0) {
      found.push_back({ends[end], Rank{-1}, factor});
      named[end] = true;
    }
  for (std::size_t a = 0; a < ends.size(); ++a)
    for (std::size_t b = a + 1; b < ends.size(); ++b)
      if (square.slow(a, b) && !named[a] && !named[b]) found.push_back({ends[a], ends[b], square.at(a, b)});
  return found;
}

bool goes_over(const std::vector<SlowLink>& links, Rank a, Rank b, const std::function<std::string(Rank)>& host) {
  const auto on = [&](Rank rank, Rank end) { return host(rank) == host(end); };
  return links.empty() || std::ranges::any_of(links, [&](const SlowLink& link) {
           if (!link.other.valid()) return on(a, link.end) || on(b, link.end);
           return (on(a, link.end) && on(b, link.other)) || (on(a, link.other) && on(b, link.end));
         });
}

}  // namespace flotilla::monitor
