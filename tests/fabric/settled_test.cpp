#include <gtest/gtest.h>

#include "support/temporary_folder.hpp"
#include "tcp_segments.hpp"

#include "sampling.hpp"

namespace flotilla::fabric {
namespace {

constexpr double overhead = 1e-6;

/// A link that lets a burst through at one rate and all else at another, and takes a microsecond for each message; no time passes.
class ShapedLink {
 public:
  ShapedLink(double burst, double fast, double slow) : left_{burst}, fast_{fast}, slow_{slow} {}
  Seconds run(int messages, double bytes) {
    double seconds = 0;
    for (int m = 0; m < messages; ++m) {
      const double quick = std::min(left_, bytes);
      left_ -= quick;
      seconds += overhead + quick / fast_ + (bytes - quick) / slow_;
    }
    return {seconds};
  }

 private:
  double left_, fast_, slow_;
};

double time_of(ShapedLink link, double bytes) {
  link.run(1, static_cast<double>(burst_size.count));
  return settled(Seconds{0.02}, [&](int messages) { return link.run(messages, bytes); }).value;
}

TEST(Settled, ABurstDoesNotCount) {
  const double slow = 20e6 / 8, fast = 1e9;
  for (const double burst : {0.0, 16e3, 64e3, 256e3})
    for (const double bytes : {8.0, 1024.0, 65536.0, 1048576.0}) {
      const double expected = overhead + bytes / slow;
      EXPECT_NEAR(time_of({burst, fast, slow}, bytes), expected, 0.01 * expected) << burst << ", " << bytes;
    }
}

TEST(Settled, ALongBurstOfLargeMessagesEnds) { EXPECT_NEAR(time_of({20e6, 1e9, 2.5e6}, 1048576), 1048576 / 2.5e6, 0.1); }

TEST(Settled, AnEvenLinkIsMeasuredAsItIs) { EXPECT_NEAR(time_of({0, 1e9, 1e9}, 8192), overhead + 8192e-9, 1e-9); }

TEST(Segments, AreReadByTheNamesOfTheirColumns) {
  const tests::TemporaryFolder folder;
  const auto file = folder.write(
      "snmp",
      "Ip: Forwarding\nIp: 1\nTcp: RtoMin ActiveOpens OutSegs RetransSegs InErrs\nTcp: 200 7 12345 67 0\nUdp: InDatagrams\nUdp: 4\n");
  EXPECT_EQ(segments_so_far(file).sent, 12345);
  EXPECT_EQ(segments_so_far(file).resent, 67);
  EXPECT_EQ(segments_so_far(folder / "none").sent, 0);
  EXPECT_GE(segments_so_far().sent, segments_so_far().resent) << "this machine's";
}

}  // namespace
}  // namespace flotilla::fabric
