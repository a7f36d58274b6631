#include <optional>
#include <utility>

#include "flotilla/bench/fabric.hpp"

namespace flotilla::bench {
namespace {

using Members = std::vector<int>;

/// The search among members whose sums are wrong.
class FaultySearch {
 public:
  explicit FaultySearch(const std::function<bool(const Members&)>& sums_are_right) : sums_are_right_{sums_are_right} {}

  /// Adds to the faulty ones those of `members`, whose sums are wrong.
  void among(const Members& members) {
    if (members.size() <= 3) return by_pairs(members);
    const auto middle = members.begin() + static_cast<std::ptrdiff_t>(members.size() / 2);
    const Members halves[]{{members.begin(), middle}, {middle, members.end()}};
    bool wrong[2];
    for (int h = 0; h < 2; ++h) {
      wrong[h] = !sums_are_right_(halves[h]);
      if (!wrong[h]) sound_ = halves[h].front();
    }
    for (int h = 0; h < 2; ++h)
      if (wrong[h]) among(halves[h]);
  }
  Members result() && { return std::move(faulty_); }

 private:
  /// Two or three; of three, a pair that is right tells who is sound.
  void by_pairs(const Members& few) {
    for (std::size_t i = 0; i < few.size() && few.size() == 3 && !sound_; ++i)
      if (const Members pair{few[i], few[(i + 1) % few.size()]}; sums_are_right_(pair)) sound_ = pair.front();
    for (const int member : few)
      if (!sound_ || (member != *sound_ && !sums_are_right_({*sound_, member}))) faulty_.push_back(member);
  }

  const std::function<bool(const Members&)>& sums_are_right_;
  std::optional<int> sound_;
  Members faulty_;
};

}  // namespace

std::vector<int> faulty_members(const std::vector<int>& members, const std::function<bool(const std::vector<int>&)>& sums_are_right) {
  if (members.size() < 2) return {};
  FaultySearch search{sums_are_right};
  search.among(members);
  return std::move(search).result();
}

}  // namespace flotilla::bench
