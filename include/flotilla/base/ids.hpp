#pragma once
#include <compare>
#include <cstddef>
#include <functional>
#include <ostream>

namespace flotilla {

/// An index that cannot be mistaken for another kind of index.
template <class Tag>
struct Id {
  int value = -1;
  constexpr Id() = default;
  constexpr explicit Id(int v) : value{v} {}
  constexpr auto operator<=>(const Id&) const = default;
  constexpr bool valid() const { return value >= 0; }
  constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
};
template <class Tag>
std::ostream& operator<<(std::ostream& out, Id<Tag> id) {
  return out << id.value;
}

/// A process of the job: its number in the world communicator.
using Rank = Id<struct RankTag>;

}  // namespace flotilla

template <class Tag>
struct std::hash<flotilla::Id<Tag>> {
  std::size_t operator()(flotilla::Id<Tag> id) const noexcept { return std::hash<int>{}(id.value); }
};
