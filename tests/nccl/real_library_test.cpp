// NVIDIA's library, where it is: it loads, and what it cannot do without a GPU is one clear line.
#include <gtest/gtest.h>

#include "flotilla/nccl/library.hpp"
#include "nccl/members.hpp"
#include "support/refusal.hpp"

namespace flotilla::nccl {
namespace {

TEST(RealLibrary, LoadsAndKnowsItsVersion) {
  if (!presence().any()) GTEST_SKIP() << "SKIPPED: " << library_description();
  EXPECT_GE(presence().version, 22200);
  EXPECT_EQ(library_description().substr(0, 7), "NCCL 2.");
}

TEST(RealLibrary, AUniqueIdIsNoProofOfADevice) {
  if (!presence().any()) GTEST_SKIP() << "SKIPPED: " << library_description();
  EXPECT_NE(make_unique_id().bytes, UniqueId{}.bytes);
}

/// The stand-in driver is too little of a driver for NVIDIA's own code.
TEST(RealLibrary, InitWithoutADeviceFailsInOneLine) {
  if (!presence().any()) GTEST_SKIP() << "SKIPPED: " << library_description();
  const auto codes = testing::run_members(1, [](testing::Member& m) {
    std::string told;
    try {
      m.join(make_unique_id());
    } catch (const Error& error) {
      told = error.what();
    }
    tests::expect_contains(told, "NCCL: ncclCommInitRankConfig of member 0 of 1 of the test group: ");
    EXPECT_EQ(told.find('\n'), std::string::npos);
  });
  EXPECT_EQ(codes, std::vector<int>{0});
}

}  // namespace
}  // namespace flotilla::nccl
