#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "flotilla/monitor/self_check.hpp"

/// Which link of a slow group over more than two hosts it is: what each two of its hosts take to exchange messages, held against each
/// other.
namespace flotilla::monitor {

/// Of a group's members the first on each host, in order.
std::vector<Rank> ends_of_hosts(const std::vector<Rank>& members, const std::function<std::string(Rank)>& host);

/// All pairs (lower, higher) of `count`, in rounds in which each is in one at most: a round-robin tournament by the circle method.
std::vector<std::vector<std::pair<int, int>>> rounds_of_pairs(int count);

/// Round trips between each two of `ends`, what they took and what they were forecast to take (0: not known): seconds, each a square of
/// ends.size() rows, symmetric. A pair is slow where it takes SelfCheck::slow_link times what the best pair does, each beside its forecast;
/// but noise among good links beside a bad one accuses none, so of these pairs only such count as take a third of the longest time, or a
/// third of the largest multiple of their forecasts. Where all pairs of an end are slow it is that host's link (SlowLink::other is not
/// valid); other slow pairs are named as such. Empty where all are alike, or fewer than three ends are known.
std::vector<SlowLink> slow_links(const std::vector<Rank>& ends, const std::vector<double>& seconds, const std::vector<double>& forecast);

/// Whether what two ranks exchange goes over one of the links; any two's does where there are none.
bool goes_over(const std::vector<SlowLink>& links, Rank a, Rank b, const std::function<std::string(Rank)>& host);

}  // namespace flotilla::monitor
