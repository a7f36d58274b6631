// Machines without NCCL, and with one that will not do.
#include "flotilla/nccl/library.hpp"

#include <gtest/gtest.h>

#include "nccl/members.hpp"
#include "support/refusal.hpp"

namespace flotilla::nccl {
namespace {

using tests::expect_contains;

TEST(NoNccl, IsSaidAndIsNoError) {
  EXPECT_FALSE(presence().any());
  expect_contains(library_description(), "no NCCL here: libnccl.so.2 cannot be opened");
  expect_contains(testing::error_of([] { make_unique_id(); }, ErrorKind::unavailable), "no NCCL here");
}

TEST(OldNccl, CountsAsNoneAndNamesTheVersionThatWouldDo) {
  EXPECT_FALSE(presence().any());
  expect_contains(library_description(), "NCCL 2.18.5, which cannot abort several communicators as one: install 2.22.0 or newer");
}

TEST(NoNccl, FeaturesByVersion) {
  const Features old = features(21805), middle = features(22304), current = features(22809);
  EXPECT_TRUE(old.nonblocking && old.split && !old.group_abort && !old.implicit_order && !old.shrink);
  EXPECT_TRUE(middle.group_abort && !middle.implicit_order && !middle.shrink);
  EXPECT_TRUE(current.group_abort && current.implicit_order && current.shrink);
  EXPECT_FALSE(features(21304).nonblocking);
}

}  // namespace
}  // namespace flotilla::nccl
