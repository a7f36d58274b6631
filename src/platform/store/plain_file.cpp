#include "flotilla/store/plain_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "descriptor.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::store {
namespace {

/// `what` is what the file cannot be: "read".
void require(int error, const std::filesystem::path& path, std::string_view what) {
  FLOTILLA_REQUIRE(error == 0, io_error_kind(error), path.string(), ": cannot be ", what, ": ", std::strerror(error));
}

}  // namespace

PlainFile PlainFile::open_for_reading(const std::filesystem::path& path) {
  return {path, open_descriptor(path, O_RDONLY | O_NONBLOCK, read_error_kind)};
}

namespace {

/// What is written, and cut, is this user's file and nobody's by another name.
void require_own(int file, const std::filesystem::path& path) {
  struct stat facts {};
  require(::fstat(file, &facts) == 0 ? 0 : errno, path, "looked at");
  const bool own = S_ISREG(facts.st_mode) && facts.st_nlink == 1 && facts.st_uid == ::geteuid();
  FLOTILLA_REQUIRE(own, ErrorKind::bad_input, path.string(),
                   ": is no regular file of this user under one name, and is not written; move it away");
}

}  // namespace

PlainFile PlainFile::open_for_writing(const std::filesystem::path& path) {
  PlainFile file{path, open_descriptor(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK)};
  require_own(file.file_.get(), path);
  return file;
}

PlainFile PlainFile::create(const std::filesystem::path& path) {
  PlainFile file{path, open_descriptor(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK)};
  require_own(file.file_.get(), path);
  file.cut_to(Bytes{0});
  return file;
}

PlainFile PlainFile::in_memory(Bytes size) {
  Descriptor file{::memfd_create("flotilla", MFD_CLOEXEC)};
  FLOTILLA_REQUIRE(file && ::ftruncate(file.get(), size.count) == 0, ErrorKind::temporary, "no file of ", size,
                   " can be made in memory: ", std::strerror(errno));
  const auto path = text("/proc/self/fd/", file.get());
  return {path, std::move(file)};
}

Bytes PlainFile::size() const {
  struct stat facts {};
  require(patiently(path_.native(), [&] { return ::fstat(file_.get(), &facts) == 0 ? 0 : errno; }), path_, "looked at");
  return {facts.st_size};
}

void PlainFile::read(std::span<std::byte> bytes, std::int64_t offset) const {
  while (!bytes.empty()) {
    ssize_t count = 0;
    require(patiently(path_.native(), [&] { return (count = ::pread(file_.get(), bytes.data(), bytes.size(), offset)) < 0 ? errno : 0; }),
            path_, "read");
    FLOTILLA_REQUIRE(count > 0, ErrorKind::bad_input, path_.string(), ": ends at byte ", offset);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

void PlainFile::write(std::span<const std::byte> bytes, std::int64_t offset) const {
  while (!bytes.empty()) {
    ssize_t count = 0;
    const auto once = [&] {
      count = ::pwrite(file_.get(), bytes.data(), bytes.size(), offset);
      return count > 0 ? 0 : count < 0 ? errno : ENOSPC;
    };
    require(patiently(path_.native(), once), path_, "written");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

void PlainFile::cut_to(Bytes size) const { require(::ftruncate(file_.get(), size.count) == 0 ? 0 : errno, path_, "cut"); }

void PlainFile::flush() const { require(::fsync(file_.get()) == 0 ? 0 : errno, path_, "flushed to the disk"); }

}  // namespace flotilla::store
