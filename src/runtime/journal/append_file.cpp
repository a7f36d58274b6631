#include "append_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "flotilla/base/io_failure.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/patience.hpp"

namespace flotilla::journal {
namespace {

constexpr std::size_t most_waiting = 10'000;  // records of some 300 bytes, of hours

std::int64_t size_of(int file) {
  struct ::stat facts {};
  return ::fstat(file, &facts) == 0 ? facts.st_size : 0;
}

/// The byte after the last line end, searched from behind; 0 without one.
std::int64_t end_of_lines(int file, std::int64_t size) {
  std::array<char, 4096> block{};
  for (auto end = size; end > 0;) {
    const auto begin = std::max<std::int64_t>(0, end - static_cast<std::int64_t>(block.size()));
    const auto got = ::pread(file, block.data(), static_cast<std::size_t>(end - begin), begin);
    if (got <= 0) return size;
    const auto found = std::string_view{block.data(), static_cast<std::size_t>(got)}.rfind('\n');
    if (found != std::string_view::npos) return begin + static_cast<std::int64_t>(found) + 1;
    end = begin;
  }
  return 0;
}

/// A link could lead anywhere, and a pipe would keep nothing: neither is followed, waited for or written to.
Descriptor opened(const std::filesystem::path& path, int more_flags) {
  Descriptor file;
  const int error = patiently(path.native(), [&] {
    file.reset(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | more_flags, 0664));
    return file ? 0 : errno;
  });
  FLOTILLA_REQUIRE(error != ELOOP, ErrorKind::unavailable, path.string(), ": is a symbolic link; a run writes into its directory alone");
  FLOTILLA_REQUIRE(file, io_error_kind(error), path.string(), ": cannot be opened for writing: ", std::strerror(error));
  struct ::stat facts {};
  FLOTILLA_REQUIRE(::fstat(file.get(), &facts) == 0 && S_ISREG(facts.st_mode), ErrorKind::unavailable, path.string(),
                   ": is no regular file; move it away");
  return file;
}

}  // namespace

AppendFile AppendFile::fresh(const std::filesystem::path& path) {
  AppendFile made;
  made.file_ = opened(path, O_EXCL);
  return made;
}

AppendFile::AppendFile(const std::filesystem::path& path) : file_{opened(path, 0)} {
  const auto size = size_of(file_.get()), whole = end_of_lines(file_.get(), size);
  if (whole == size) return;
  FLOTILLA_REQUIRE(::ftruncate(file_.get(), whole) == 0, io_error_kind(errno), path.string(), ": byte ", whole,
                   ": the line that a killed writer left half-written cannot be cut off: ", std::strerror(errno));
  repaired_bytes_ = size - whole;
}

int AppendFile::append(std::string_view record) noexcept {
  const auto wrote = ::write(file_.get(), record.data(), record.size());
  if (wrote == static_cast<ssize_t>(record.size())) return 0;
  const int error = wrote < 0 ? errno : ENOSPC;
  // A part is there: nobody else appends, so it is at the end.
  if (wrote > 0 && ::ftruncate(file_.get(), size_of(file_.get()) - wrote) != 0) return errno;
  return error;
}

void PatientAppender::append(std::string record) noexcept {
  try {
    const std::lock_guard lock{mutex_};
    if (waiting_.size() < most_waiting)
      waiting_.push_back(std::move(record));
    else
      ++lost_;
    int error = 0;
    while (!waiting_.empty() && (error = file_.append(waiting_.front())) == 0) waiting_.pop_front();
    if (error == 0 || std::exchange(warned_, true)) return;
    log::warning(what_.file, ": a ", what_.record, " could not be written: ", std::strerror(error), "; training continues, and ",
                 what_.records, " wait until there is room again");
  } catch (...) {
    lose();
  }
}

void PatientAppender::lose() noexcept {
  const std::lock_guard lock{mutex_};
  ++lost_;
}

std::int64_t PatientAppender::lost() const {
  const std::lock_guard lock{mutex_};
  return lost_;
}

}  // namespace flotilla::journal
