#include "flotilla/base/io_failure.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace flotilla {
namespace {

TEST(IoFailure, OnlyAMissingNameMeansAbsent) {
  for (int error = 1; error < 134; ++error) EXPECT_EQ(io_failure(error) == IoFailure::absent, error == ENOENT || error == ENOTDIR) << error;
}

TEST(IoFailure, AFullOrDistantDiskMayWorkLater) {
  for (const int error : {ENOSPC, EDQUOT, EROFS, ESTALE, EIO}) {
    EXPECT_EQ(io_failure(error), IoFailure::temporary) << error;
    EXPECT_EQ(io_error_kind(error), ErrorKind::temporary) << error;
    EXPECT_EQ(read_error_kind(error), ErrorKind::temporary) << error;
  }
  for (const int error : {EACCES, EPERM, ELOOP, ENAMETOOLONG, EISDIR}) {
    EXPECT_EQ(io_failure(error), IoFailure::permanent) << error;
    EXPECT_EQ(io_error_kind(error), ErrorKind::unavailable) << error;
    EXPECT_EQ(read_error_kind(error), ErrorKind::no_input) << error;
  }
  EXPECT_EQ(io_error_kind(ENOENT), ErrorKind::unavailable);
  EXPECT_EQ(read_error_kind(ENOENT), ErrorKind::no_input);
}

}  // namespace
}  // namespace flotilla
