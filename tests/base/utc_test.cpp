#include "flotilla/base/utc.hpp"

#include <gtest/gtest.h>

namespace flotilla {
namespace {

TEST(Utc, NowIsADateOfFiles) {
  const std::string now = utc_now();
  ASSERT_EQ(now.size(), 20u);
  EXPECT_EQ(now[10], 'T');
  EXPECT_EQ(now.back(), 'Z');
  EXPECT_TRUE(parse_utc(now));
}

TEST(Utc, ReadsWhatItWrites) {
  EXPECT_EQ(parse_utc("1970-01-02T00:00:01Z"), 86401.0);
  for (const char* other : {"", "yesterday", "2026-11-20", "2026-11-20T09:30:00Z and more"}) EXPECT_FALSE(parse_utc(other)) << other;
}

}  // namespace
}  // namespace flotilla
