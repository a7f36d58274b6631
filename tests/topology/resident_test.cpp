#include "flotilla/topology/resident.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace flotilla::topology::resident_test {
namespace {

using flotilla::Bytes;

TEST(PeakResident, RisesWithWhatIsTouchedAndCanBeForgotten) {
  const Bytes before = flotilla::topology::peak_resident();
  if (before == Bytes{}) GTEST_SKIP() << "this system does not tell the peak";
  constexpr std::size_t size = 64 << 20;
  void* pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  for (std::size_t offset = 0; offset < size; offset += 4096) static_cast<char*>(pages)[offset] = 1;
  const Bytes touched = flotilla::topology::peak_resident();
  EXPECT_GE(touched, before + Bytes{size / 2});
  munmap(pages, size);
  constexpr Bytes counters{4 << 20};  // Linux counts pages by processor and adds them up now and then
  EXPECT_GE(flotilla::topology::peak_resident() + counters, touched) << "a peak stays";
  flotilla::topology::forget_peak_resident();
  EXPECT_LT(flotilla::topology::peak_resident(), touched - Bytes{size / 2});
}

}  // namespace
}  // namespace flotilla::topology::resident_test
