// The deadline on MPI_Init, which has none.
#include "start_guard.hpp"

#include <gtest/gtest.h>

#include <future>

namespace flotilla::mpi {
namespace {

TEST(StartGuard, CallsWhoeverEndsTheProcess) {
  std::promise<void> called;
  const StartGuard guard{Seconds{0.001}, [&] { called.set_value(); }};
  called.get_future().wait();
}

TEST(StartGuard, IsQuietWhenTheCallReturned) {
  bool called = false;
  {
    const StartGuard guard{Seconds{3600}, [&] { called = true; }};
  }
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace flotilla::mpi
