// A write that fails on one rank although the space was reserved: all ranks hear of it, HDF5 is shut, and the process can still leave.
#include <sys/resource.h>

#include <csignal>

#include "checkpoint/session.hpp"
#include "flotilla/store/file.hpp"

namespace flotilla::checkpoint {
namespace {

TEST_F(Together, AFailedWriteIsToldAndLeavesNothing) {
  const auto plan = plan::even_plan(wide_model(), 8, 60, Precision::fp32, 1, 1, size(), 1);
  Holding holding{plan, world_.rank()};
  holding.fill(1);
  save(holding, 1);
  SaveOptions options;
  options.on_phase = [&](Phase phase) {
    if (phase != Phase::write || world_.rank().value != size() - 1) return;
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 16, RLIM_INFINITY};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  };
  const auto message = refusal(ErrorKind::temporary, [&] { save(holding, 2, options); });
  expect_names(message, "write failed");
  EXPECT_TRUE(store::poisoned());
  EXPECT_EQ(steps(), std::vector<std::int64_t>{1});
  EXPECT_FALSE(std::filesystem::exists(step_directory(run_, 2)));
  expect_names(refusal(ErrorKind::temporary, [&] { save(holding, 2); }), "HDF5 cannot be used any more");
}

}  // namespace
}  // namespace flotilla::checkpoint
