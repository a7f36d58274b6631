// The deadline on MPI_Init and MPI_Finalize, which have none.
#include "call_deadline.hpp"

#include <gtest/gtest.h>

#include <future>

namespace flotilla::mpi {
namespace {

TEST(CallDeadline, CallsWhoeverEndsTheProcess) {
  std::promise<void> called;
  const CallDeadline deadline{Seconds{0.001}, [&] { called.set_value(); }};
  called.get_future().wait();
}

TEST(CallDeadline, IsQuietWhenTheCallReturned) {
  bool called = false;
  {
    const CallDeadline deadline{Seconds{3600}, [&] { called = true; }};
  }
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace flotilla::mpi
