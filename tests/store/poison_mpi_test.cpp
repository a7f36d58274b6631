// A parallel write that fails on one rank only: every rank gives the file up and leaves through MPI_Finalize without hanging.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <optional>

#include "flotilla/base/error.hpp"
#include "flotilla/mpi/session.hpp"
#include "flotilla/store/file.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::store {
namespace {

constexpr Seconds deadline{120};
constexpr std::int64_t count = 1 << 20;

void create(const std::filesystem::path& path) {
  File::create_reserved(path, {4 * count + 4096});
  auto file = File::open_for_writing(path);
  file.create_dataset("x", {count}, Element::fp32);
  file.close();
}

bool write_fails(const File& file, const model::UnitRange& mine) {
  const std::vector<float> values(static_cast<std::size_t>(mine.count()), 1.0f);
  try {
    file.dataset("x").write(values, {.outer = 1, .inner = mine.count(), .global_offset = mine.first});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::temporary);
    return true;
  }
  return false;
}

TEST(Poison, AFailedParallelWriteLeavesNobodyHanging) {
  const mpi::Session session;
  const auto& world = session.world();
  const tests::TemporaryFolder own;
  const std::filesystem::path path = mpi::broadcast_string(world, (own / "x.h5").string(), 0, deadline);
  if (world.rank() == 0) create(path);
  mpi::barrier(world, deadline);
  const bool last = world.rank() == world.size() - 1;
  if (last) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 16, RLIM_INFINITY};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  {
    const auto file = File::open_for_writing(path, world);
    EXPECT_EQ(write_fails(file, model::share(count, world.size(), world.rank())), last);
    EXPECT_EQ(poisoned(), last);
    mpi::barrier(world, deadline);
    poison();
  }
  try {
    File::open_for_reading(path);
    FAIL() << "HDF5 was entered again";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::temporary);
  }
}

}  // namespace
}  // namespace flotilla::store
