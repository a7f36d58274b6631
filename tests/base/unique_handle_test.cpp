#include "flotilla/base/unique_handle.hpp"

#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

namespace flotilla {
namespace {

std::vector<int> destroyed;

struct Traits {
  using Raw = int;
  static Raw null() noexcept { return -1; }
  static void destroy(Raw raw) noexcept { destroyed.push_back(raw); }
};
using Handle = UniqueHandle<Traits>;

static_assert(std::is_nothrow_move_constructible_v<Handle> && std::is_nothrow_move_assignable_v<Handle>);
static_assert(!std::is_copy_constructible_v<Handle> && !std::is_copy_assignable_v<Handle>);

TEST(UniqueHandle, DestroysEachRawOnce) {
  destroyed.clear();
  {
    Handle a{1}, b{2};
    Handle c{std::move(a)};
    b = std::move(c);
    EXPECT_EQ(destroyed, std::vector<int>{2});
    EXPECT_FALSE(a);
    EXPECT_FALSE(c);
    EXPECT_EQ(b.get(), 1);
    Handle& itself = b;
    b = std::move(itself);
    EXPECT_EQ(b.get(), 1);
    b.reset(3);
  }
  EXPECT_EQ(destroyed, (std::vector<int>{2, 1, 3}));
}

TEST(UniqueHandle, ReleaseGivesItAway) {
  destroyed.clear();
  {
    Handle a{7};
    EXPECT_EQ(a.release(), 7);
    EXPECT_FALSE(a);
  }
  EXPECT_TRUE(destroyed.empty());
}

}  // namespace
}  // namespace flotilla
