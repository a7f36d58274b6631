#include <gtest/gtest.h>

#include "flotilla/mpi/session.hpp"
#include "flotilla/store/file.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::store {
namespace {

constexpr Seconds deadline{120};
constexpr std::int64_t rows = 13, columns = 29;

float value(std::int64_t index) { return static_cast<float>(index) * 0.5f; }

class Parallel : public ::testing::Test {
 protected:
  Parallel() { shared_ = mpi::broadcast_string(world(), own_.path().string(), 0, deadline); }
  const mpi::Communicator& world() const { return session_.world(); }
  std::filesystem::path path() const { return shared_ / "x.h5"; }

  void create(const std::vector<std::int64_t>& shape) const {
    if (world().rank() == 0) {
      File::create_reserved(path(), {1 << 16});
      auto file = File::open_for_writing(path());
      file.create_dataset("x", shape, Element::fp32);
      file.close();
    }
    mpi::barrier(world(), deadline);
  }

  void write(const plan::Box& box, std::int64_t local_elements) const {
    std::vector<float> local(static_cast<std::size_t>(local_elements));
    for (std::int64_t o = 0; o < box.outer; ++o)
      for (std::int64_t i = 0; i < box.inner; ++i)
        local[static_cast<std::size_t>(box.local_offset + o * box.local_stride + i)] = value(box.global_offset + o * box.global_stride + i);
    auto file = File::open_for_writing(path(), world());
    file.dataset("x").write(local, box);
    file.close();
  }

  void expect_all(std::int64_t count) const {
    mpi::barrier(world(), deadline);
    std::vector<float> found(static_cast<std::size_t>(count));
    File::open_for_reading(path()).dataset("x").read(found, {.outer = 1, .inner = count});
    for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(found[static_cast<std::size_t>(i)], value(i)) << i;
    mpi::barrier(world(), deadline);
  }

  mpi::Session session_;
  tests::TemporaryFolder own_;
  std::filesystem::path shared_;
};

model::UnitRange share(std::int64_t units, const mpi::Communicator& world) { return model::share(units, world.size(), world.rank()); }

TEST_F(Parallel, RowsOfAllRanksMakeTheWhole) {
  create({rows, columns});
  const auto mine = share(rows, world());
  write({.outer = 1, .inner = mine.count() * columns, .global_offset = mine.first * columns}, mine.count() * columns);
  expect_all(rows * columns);
}

TEST_F(Parallel, ColumnsOfAllRanksMakeTheWhole) {
  create({rows, columns});
  const auto mine = share(columns, world());
  write({.outer = rows, .inner = mine.count(), .global_offset = mine.first, .global_stride = columns, .local_stride = mine.count()},
        rows * mine.count());
  expect_all(rows * columns);
}

TEST_F(Parallel, SomeRanksMayWriteNothing) {
  create({rows});
  const bool last = world().rank() == world().size() - 1;
  write({.outer = 1, .inner = last ? rows : 0}, last ? rows : 0);
  expect_all(rows);
}

}  // namespace
}  // namespace flotilla::store
