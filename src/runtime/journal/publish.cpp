#include "publish.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "flotilla/base/io_failure.hpp"
#include "flotilla/base/patience.hpp"
#include "flotilla/files/text_file.hpp"

namespace flotilla::journal {
namespace {

/// Another in every process and every time.
std::filesystem::path private_name(const std::filesystem::path& target) { return target.string() + "." + files::unguessable() + ".own"; }

/// The descriptor of a file that did not exist, or -1 with errno; waits for a disk that is full or away.
int create_new(const std::filesystem::path& path) {
  int file = -1;
  errno = patiently(path.native(), [&] {
    file = ::open(path.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0664);
    return file >= 0 ? 0 : errno;
  });
  return file;
}

/// A file under a name of this process's own, removed again in the end.
class PrivateFile {
 public:
  PrivateFile(const std::filesystem::path& target, std::string_view content) : path_{private_name(target)} {
    files::write_text(path_, content);
  }
  PrivateFile(const PrivateFile&) = delete;
  PrivateFile& operator=(const PrivateFile&) = delete;
  ~PrivateFile() { ::unlink(path_.c_str()); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Where there are no hard links, the name is taken first and filled a moment later.
bool create_exclusively(const std::filesystem::path& path, std::string_view content) {
  const int file = create_new(path);
  if (file < 0 && errno == EEXIST) return false;
  FLOTILLA_REQUIRE(file >= 0, io_error_kind(errno), path.string(), ": cannot be created: ", std::strerror(errno));
  const bool written = ::write(file, content.data(), content.size()) == static_cast<ssize_t>(content.size());
  const bool closed = ::close(file) == 0;
  if (!written || !closed) ::unlink(path.c_str());
  FLOTILLA_REQUIRE(written && closed, ErrorKind::temporary, path.string(), ": cannot be written; is there space on the disk?");
  return true;
}

}  // namespace

bool publish_once(const std::filesystem::path& path, std::string_view content) {
  const PrivateFile own{path, content};
  const int error = patiently(path.native(), [&] { return ::link(own.path().c_str(), path.c_str()) == 0 ? 0 : errno; });
  if (error == 0) return true;
  // NFS: the answer may be lost after the link was made; then our file has two names.
  struct ::stat facts {};
  if (::stat(own.path().c_str(), &facts) == 0 && facts.st_nlink == 2) return true;
  if (error == EEXIST) return false;
  FLOTILLA_REQUIRE(error == EPERM || error == EOPNOTSUPP || error == ENOSYS || error == EMLINK, io_error_kind(error), path.string(),
                   ": cannot be created: ", std::strerror(error));
  return create_exclusively(path, content);
}

double file_system_clock(const std::filesystem::path& folder) {
  const auto path = private_name(folder / "clock");
  const int file = create_new(path);
  FLOTILLA_REQUIRE(file >= 0, io_error_kind(errno), path.string(), ": cannot be created: ", std::strerror(errno));
  struct ::stat facts {};
  const bool known = ::fstat(file, &facts) == 0;
  ::close(file);
  ::unlink(path.c_str());
  FLOTILLA_REQUIRE(known, ErrorKind::temporary, path.string(), ": cannot be examined");
  return static_cast<double>(facts.st_mtim.tv_sec) + 1e-9 * static_cast<double>(facts.st_mtim.tv_nsec);
}

}  // namespace flotilla::journal
