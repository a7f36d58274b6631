// A disk that is too small: one line, nobody hangs, nothing half-written is left, earlier checkpoints stand, and the run may go on.
#include <sys/mount.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "checkpoint/session.hpp"
#include "flotilla/store/disk.hpp"

namespace flotilla::checkpoint::full_disk_mpi_test {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<std::int64_t>;

class FullDisk : public Together {
 protected:
  FullDisk() : holding_{plan(), world_.rank()} { holding_.fill(1); }
  plan::Plan plan() const {
    std::mt19937 random{51};
    return random_plan(random, odd_model(), size());
  }
  std::string refused_and_clean(std::int64_t step) {
    const auto message = agreed_refusal(ErrorKind::temporary, [&] { save(holding_, step, {.keep = 0}); });
    expect_names(message, step_directory(run_, step).string());
    barrier();
    EXPECT_FALSE(fs::exists(step_directory(run_, step)));
    return message;
  }
  Holding holding_;
};

/// A file system of its own at a folder of the root rank, for as long as it lives.
class SmallDisk {
 public:
  SmallDisk(const fs::path& where, bool here, Bytes size) : where_{where} {
    if (here && ::mount("tmpfs", where.c_str(), "tmpfs", 0, text("size=", size.count).c_str()) != 0) reason_ = std::strerror(errno);
    mounted_ = here && reason_.empty();
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_) ::umount2(where_.c_str(), MNT_DETACH);
  }
  const std::string& reason() const { return reason_; }

 private:
  fs::path where_;
  std::string reason_;
  bool mounted_ = false;
};

TEST_F(FullDisk, ASmallFileSystem) {
  // Room for two, and most of what the third would ask for.
  const Bytes one = save(holding_, 1).size;
  const Bytes size = align_up({2 * one.count + one.count * 4 / 5}, 4096);
  const SmallDisk disk{run_, root(), size};
  const auto reason = mpi::broadcast_string(world_.control(), disk.reason(), 0, test_deadline);
  if (!reason.empty()) GTEST_SKIP() << "cannot mount a small file system here: " << reason;
  save(holding_, 1, {.keep = 0});
  holding_.fill(2);
  save(holding_, 2, {.keep = 0});
  const Bytes before = store::free_space(run_);
  for (std::int64_t step : {3, 4}) {
    const auto message = refused_and_clean(step);
    expect_names(message, "the disk is too small");
    expect_names(message, "free");
  }
  EXPECT_EQ(store::free_space(run_), before);
  EXPECT_EQ(steps(), (Steps{1, 2}));
  holding_.clear();
  EXPECT_EQ(load_newest_good(world_, run_, holding_.state(), {test_deadline}).manifest.step, 2);
  EXPECT_EQ(holding_.wrong(2), 0);
  barrier();
  if (root()) fs::remove_all(step_directory(run_, 1));
  barrier();
  save(holding_, 3, {.keep = 0});
  EXPECT_EQ(steps(), (Steps{2, 3}));
  barrier();
}

TEST_F(FullDisk, ALimitOnTheSizeOfFiles) {
  std::signal(SIGXFSZ, SIG_IGN);
  save(holding_, 1);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto whole = limit.rlim_cur;
  limit.rlim_cur = 4096;
  if (root()) {
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  refused_and_clean(2);
  limit.rlim_cur = whole;
  if (root()) {
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  EXPECT_EQ(steps(), Steps{1});
  save(holding_, 2);
  EXPECT_EQ(steps(), (Steps{1, 2}));
}

}  // namespace
}  // namespace flotilla::checkpoint::full_disk_mpi_test
