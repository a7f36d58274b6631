#pragma once
#include <gtest/gtest.h>

#include "checkpoint/holding.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/mpi/session.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

namespace flotilla::checkpoint {

inline constexpr Seconds test_deadline = flotilla::tests::hang_bound();

/// All ranks, and a run directory they share.
class Together : public ::testing::Test {
 protected:
  Together() : world_{session_.world(), test_deadline} {
    run_ = mpi::broadcast_string(world_.control(), own_.path().string(), 0, test_deadline);
  }
  ~Together() override { mpi::barrier(world_.control(), test_deadline); }

  int size() const { return world_.size(); }
  bool root() const { return world_.rank().value == 0; }
  void barrier() const { mpi::barrier(world_.control(), test_deadline); }

  SaveReport save(const Holding& holding, std::int64_t step, SaveOptions options = {}) const {
    Manifest manifest;
    manifest.step = step;
    manifest.training = "test";
    options.deadline = test_deadline;
    return checkpoint::save(world_, run_, holding.state(), manifest, options);
  }
  Manifest load(const Holding& holding, std::int64_t step) const {
    return checkpoint::load(world_, step_directory(run_, step), holding.state(), {test_deadline});
  }
  std::vector<std::int64_t> steps() const {
    barrier();
    std::vector<std::int64_t> numbers;
    for (const auto& step : list(run_)) numbers.push_back(step.step);
    barrier();
    return numbers;
  }
  /// The message of the error that every rank must throw.
  template <class Work>
  std::string agreed_refusal(ErrorKind kind, Work&& work) const {
    const std::string message = tests::refusal<comm::AgreedError>(kind, work);
    EXPECT_EQ(mpi::broadcast_string(world_.control(), message, 0, test_deadline), message);
    return message;
  }

  mpi::Session session_;
  tests::TemporaryFolder own_;
  comm::World world_;
  std::filesystem::path run_;
};

inline void expect_names(const std::string& message, const std::string& word) {
  EXPECT_NE(message.find(word), std::string::npos) << message << "\nshould name " << word;
}

}  // namespace flotilla::checkpoint
