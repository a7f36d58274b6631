// A write that fails on one rank although the space was reserved: all ranks hear of it, nothing is left, and the next save works.
#include <sys/resource.h>

#include <csignal>

#include "checkpoint/session.hpp"

namespace flotilla::checkpoint::failed_write_mpi_test {
namespace {

class FailedWrite : public Together {
 protected:
  FailedWrite() : holding_{plan::even_plan(wide_model(), 8, 60, Precision::fp32, 1, 1, size(), 1), world_.rank()} {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &limit_), 0);
    std::signal(SIGXFSZ, SIG_IGN);
  }

  /// The last rank cannot write beyond 64 KiB from the phase on.
  SaveOptions failing_from(SavePhase phase) const {
    SaveOptions options;
    options.on_phase = [this, phase](SavePhase begun) {
      if (begun == phase && world_.rank().value == size() - 1) limit(1 << 16);
    };
    return options;
  }
  void limit(rlim_t bytes) const {
    const rlimit changed{bytes, limit_.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &changed), 0);
  }

  Holding holding_;
  rlimit limit_{};
};

TEST_F(FailedWrite, IsToldLeavesNothingAndTheNextSaveWorks) {
  holding_.fill(1);
  save(holding_, 1);
  const auto message = agreed_refusal(ErrorKind::unavailable, [&] { save(holding_, 2, failing_from(SavePhase::write)); });
  expect_names(message, "cannot be written");
  EXPECT_EQ(steps(), std::vector<std::int64_t>{1});
  EXPECT_FALSE(std::filesystem::exists(step_directory(run_, 2)));
  limit(limit_.rlim_cur);
  barrier();
  holding_.fill(2);
  save(holding_, 2);
  holding_.clear();
  EXPECT_EQ(load(holding_, 2).step, 2);
  EXPECT_EQ(holding_.wrong(2), 0);
}

}  // namespace
}  // namespace flotilla::checkpoint::failed_write_mpi_test
