#include "flotilla/files/text_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "flotilla/base/io_failure.hpp"
#include "flotilla/base/unique_handle.hpp"

namespace flotilla::files {
namespace {

struct DescriptorTraits {
  using Raw = int;
  static Raw null() noexcept { return -1; }
  static void destroy(Raw fd) noexcept { ::close(fd); }
};
using Descriptor = UniqueHandle<DescriptorTraits>;

std::string reason() { return std::strerror(errno); }

/// Removes the temporary file unless it has been renamed.
class Temporary {
 public:
  explicit Temporary(const std::filesystem::path& target) {
    static std::atomic<unsigned> counter{0};
    do {  // another host may have taken this process's number on a shared file system
      path_ = target.string() + text(".", ::getpid(), ".", counter++, ".tmp");
      file_ = Descriptor{::open(path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666)};
    } while (!file_ && errno == EEXIST);
    if (!file_) path_.clear();
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  bool opened() const { return static_cast<bool>(file_); }
  bool write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = ::write(file_.get(), text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      text.remove_prefix(static_cast<std::size_t>(written));
    }
    return ::fsync(file_.get()) == 0 && ::close(file_.release()) == 0;
  }
  bool rename_to(const std::filesystem::path& target) {
    if (::rename(path_.c_str(), target.c_str()) != 0) return false;
    path_.clear();
    return true;
  }

 private:
  std::string path_;
  Descriptor file_;
};

/// Makes the rename itself durable; some file systems cannot, and then there is nothing to do.
void flush_folder(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path{"."};
  const Descriptor opened{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (opened) ::fsync(opened.get());
}

}  // namespace

std::string read_text(const std::filesystem::path& path, Bytes limit) {
  // O_NONBLOCK: a pipe without a writer must not hold us.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  FLOTILLA_REQUIRE(file, ErrorKind::bad_input, path.string(), ": cannot be opened: ", reason());
  struct stat facts {};
  FLOTILLA_REQUIRE(::fstat(file.get(), &facts) == 0, ErrorKind::bad_input, path.string(), ": cannot be read: ", reason());
  FLOTILLA_REQUIRE(S_ISREG(facts.st_mode), ErrorKind::bad_input, path.string(), ": is not a regular file");
  std::string content;
  const auto most = static_cast<std::size_t>(limit.count);
  for (std::size_t chunk = 1 << 16;;) {
    const std::size_t had = content.size();
    FLOTILLA_REQUIRE(had <= most, ErrorKind::bad_input, path.string(), ": is larger than ", limit, ", which no such file is");
    content.resize(had + chunk);
    const ssize_t got = ::read(file.get(), content.data() + had, chunk);
    content.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) continue;
    FLOTILLA_REQUIRE(got >= 0, ErrorKind::bad_input, path.string(), ": cannot be read: ", reason());
    if (got == 0) return content;
  }
}

void write_text(const std::filesystem::path& path, std::string_view content) {
  Temporary temporary{path};
  FLOTILLA_REQUIRE(temporary.opened(), io_error_kind(errno), path.string(), ": cannot be created: ", reason(),
                   "; is there such a folder, and may you write in it?");
  FLOTILLA_REQUIRE(temporary.write(content), io_error_kind(errno), path.string(), ": cannot be written: ", reason(),
                   "; an older file is as it was");
  FLOTILLA_REQUIRE(temporary.rename_to(path), io_error_kind(errno), path.string(), ": cannot be replaced: ", reason());
  flush_folder(path);
}

}  // namespace flotilla::files
