#include "flotilla/store/disk.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "descriptor.hpp"
#include "flotilla/base/io_failure.hpp"

namespace flotilla::store {
namespace {

constexpr std::int64_t zero_block = 4 << 20;

/// 0 or errno.
int allocate(int file, std::int64_t size) {
  for (;;) {
    if (::fallocate(file, 0, 0, size) == 0) return 0;
    if (errno != EINTR) return errno;
  }
}

/// 0 or errno. For file systems without fallocate: only what has been written has room for certain.
int write_zeros(int file, std::int64_t first, std::int64_t last) {
  const std::vector<char> zeros(static_cast<std::size_t>(std::min(zero_block, std::max<std::int64_t>(last - first, 0))));
  while (first < last) {
    const auto count = std::min(last - first, static_cast<std::int64_t>(zeros.size()));
    const auto written = ::pwrite(file, zeros.data(), static_cast<std::size_t>(count), first);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    first += written;
  }
  return ::fsync(file) == 0 ? 0 : errno;
}

struct DiskExtent {
  Bytes length, allocated;
};

DiskExtent extent_of(int file, const std::filesystem::path& path) {
  struct stat facts {};
  FLOTILLA_REQUIRE(::fstat(file, &facts) == 0, io_error_kind(errno), path.string(), ": ", std::strerror(errno));
  return {{facts.st_size}, {facts.st_blocks * std::int64_t{512}}};
}

bool means_full(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

}  // namespace

Bytes free_space(const std::filesystem::path& path) {
  struct statvfs facts {};
  FLOTILLA_REQUIRE(::statvfs(path.c_str(), &facts) == 0, io_error_kind(errno), path.string(),
                   ": the file system does not say how much is free: ", std::strerror(errno));
  return {static_cast<std::int64_t>(facts.f_bavail) * static_cast<std::int64_t>(facts.f_frsize)};
}

void reserve(const std::filesystem::path& file, Bytes size) {
  const Descriptor descriptor = open_descriptor(file, O_RDWR);
  const DiskExtent extent = extent_of(descriptor.get(), file);
  const Bytes free = free_space(file);
  // Asked first, because some file systems fill the whole disk before they find that it does not do.
  int error = size - extent.allocated > free ? ENOSPC : 0;
  if (error == 0 && size.count > 0) error = allocate(descriptor.get(), size.count);
  if (error == EOPNOTSUPP || error == ENOSYS || error == EINVAL) error = write_zeros(descriptor.get(), extent.length.count, size.count);
  FLOTILLA_REQUIRE(!means_full(error), ErrorKind::temporary, file.string(), ": the disk is too small: ", size, " (", size.count,
                   " bytes) are needed, ", free, " (", free.count, " bytes) are free: ", std::strerror(error));
  FLOTILLA_REQUIRE(error == 0, io_error_kind(error), file.string(), ": cannot reserve ", size, ": ", std::strerror(error));
}

void flush(const std::filesystem::path& file_or_folder) {
  const Descriptor descriptor = open_descriptor(file_or_folder, O_RDONLY);
  const int status = ::fsync(descriptor.get());
  // Some network file systems have nothing to flush for a folder and say EINVAL.
  FLOTILLA_REQUIRE(status == 0 || errno == EINVAL, io_error_kind(errno), file_or_folder.string(),
                   ": cannot be flushed to the disk: ", std::strerror(errno));
}

}  // namespace flotilla::store
