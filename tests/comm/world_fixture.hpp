#pragma once
#include <gtest/gtest.h>
#include <mpi.h>

#include <memory>

#include "flotilla/comm/world.hpp"
#include "flotilla/mpi/session.hpp"
#include "support/waiting.hpp"

namespace flotilla::comm {

inline constexpr Seconds patience = flotilla::tests::hang_bound();

/// One world for all tests of a program; ranks meet after every test.
class WorldTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    session = std::make_unique<mpi::Session>();
    shared = std::make_unique<World>(session->world(), patience);
  }
  static void TearDownTestSuite() {
    shared.reset();
    session.reset();
  }
  void TearDown() override { meet(); }
  /// Outside our own channels, so that a test may wait for ranks that those channels have given up.
  static void meet() { MPI_Barrier(MPI_COMM_WORLD); }

  const World& world = *shared;
  const int me = world.rank().value;
  const int size = world.size();

 private:
  inline static std::unique_ptr<mpi::Session> session;
  inline static std::unique_ptr<World> shared;
};

}  // namespace flotilla::comm
