#include "flotilla/files/text_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "flotilla/base/descriptor.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/base/io_failure.hpp"

namespace flotilla::files {
namespace {

std::string reason() { return std::strerror(errno); }

constexpr mode_t file_mode = 0664, folder_mode = 0775;

constexpr int reader_pause = 5'000;  // milliseconds for which a pipe's reader may take nothing

/// Whether there is room again; false with errno.
bool await_room(int file) {
  pollfd room{file, POLLOUT, 0};
  const int ready = ::poll(&room, 1, reader_pause);
  if (ready == 0) errno = ETIMEDOUT;
  return ready > 0 || (ready < 0 && errno == EINTR);
}

/// False with errno.
bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN && await_room(file)) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// Removes the temporary file unless it has been renamed.
class Temporary {
 public:
  Temporary(const std::filesystem::path& target, mode_t mode)
      : path_{target.string() + "." + unguessable() + ".tmp"},
        file_{::open(path_.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, mode)} {
    if (!file_) path_.clear();
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  bool opened() const { return static_cast<bool>(file_); }
  bool write(std::string_view text, Flush flush) {
    return write_all(file_.get(), text) && (flush == Flush::no || ::fsync(file_.get()) == 0);
  }
  bool close_with(std::optional<mode_t> mode) { return (!mode || ::fchmod(file_.get(), *mode) == 0) && ::close(file_.release()) == 0; }
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

/// N of /dev/fd/N and its other names; -1 for any other path.
int own_descriptor(const std::string& path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    int number = -1;
    const char* const end = path.data() + path.size();
    if (path.starts_with(folder) && std::from_chars(path.data() + folder.size(), end, number).ptr == end) return number;
  }
  return -1;
}

void write_through(const std::filesystem::path& path, std::string_view content, int more_flags = 0) {
  const int own = own_descriptor(path.string());
  // A pipe that nobody reads must not hold us: `more_flags` is O_NONBLOCK for pipes.
  const Descriptor file{own >= 0 ? ::dup(own) : ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | more_flags)};
  FLOTILLA_REQUIRE(file || errno != ENXIO, ErrorKind::unavailable, path.string(),
                   ": is a pipe that nobody reads; start its reader first, or name a file");
  FLOTILLA_REQUIRE(file, io_error_kind(errno), path.string(), ": cannot be opened for writing: ", reason());
  FLOTILLA_REQUIRE(write_all(file.get(), content), io_error_kind(errno), path.string(), ": cannot be written: ", reason());
}

/// To whoever listens on it: a stream, as nc -lU takes it.
void write_to_listener(const std::filesystem::path& path, std::string_view content) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  FLOTILLA_REQUIRE(path.native().size() < sizeof address.sun_path, ErrorKind::unavailable, path.string(),
                   ": is a socket whose name is too long to connect to");
  std::memcpy(address.sun_path, path.c_str(), path.native().size());
  const Descriptor socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  FLOTILLA_REQUIRE(socket && ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0,
                   ErrorKind::unavailable, path.string(), ": is a socket that cannot be written to: ", reason());
  while (!content.empty()) {
    const ssize_t sent = ::send(socket.get(), content.data(), content.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    FLOTILLA_REQUIRE(sent >= 0, ErrorKind::unavailable, path.string(), ": its listener has gone: ", reason());
    content.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void replace(const std::filesystem::path& path, std::string_view content, std::optional<mode_t> mode, mode_t most, Flush flush) {
  Temporary temporary{path, static_cast<mode_t>(file_mode & most)};
  FLOTILLA_REQUIRE(temporary.opened(), io_error_kind(errno), path.string(), ": cannot be created: ", reason(),
                   "; is there such a folder, and may you write in it?");
  FLOTILLA_REQUIRE(temporary.write(content, flush) && temporary.close_with(mode), io_error_kind(errno), path.string(),
                   ": cannot be written: ", reason(), "; an older file is as it was");
  FLOTILLA_REQUIRE(temporary.rename_to(path), io_error_kind(errno), path.string(), ": cannot be replaced: ", reason());
  if (flush == Flush::yes) flush_folder(path);
}

/// Looks at an open file, and throws where it is not to be read.
using Check = std::function<void(int file, const struct stat&)>;

/// One attempt: 0 or errno. Throws for what no attempt changes, in the words of `path`.
int read_once(const std::filesystem::path& at, const std::filesystem::path& path, int more_flags, Bytes limit, const Check& check,
              std::string& content) {
  content.clear();
  // O_NONBLOCK: a pipe without a writer must not hold us.
  const Descriptor file{::open(at.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | more_flags)};
  FLOTILLA_REQUIRE(file || errno != ELOOP || more_flags == 0, ErrorKind::bad_input, path.string(), ": not a regular file (a link)");
  struct stat facts {};
  if (!file || ::fstat(file.get(), &facts) != 0) return errno;
  FLOTILLA_REQUIRE(S_ISREG(facts.st_mode), ErrorKind::bad_input, path.string(), ": is not a regular file");
  if (check) check(file.get(), facts);
  const auto most = static_cast<std::size_t>(limit.count);
  for (std::size_t chunk = 1 << 16;;) {
    const std::size_t had = content.size();
    FLOTILLA_REQUIRE(had <= most, ErrorKind::bad_input, path.string(), ": is larger than ", limit, ", which no such file is");
    content.resize(had + chunk);
    const ssize_t got = ::read(file.get(), content.data() + had, chunk);
    content.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno != EINTR) return errno;
    if (got == 0) return 0;
  }
}

[[noreturn]] void refuse_to_read(int error, const std::filesystem::path& path) {
  throw Error{read_error_kind(error), text(path.string(), ": cannot be opened: ", std::strerror(error))};
}

std::string read_of(const std::filesystem::path& at, const std::filesystem::path& path, int more_flags, Bytes limit, const Check& check,
                    const Patience& patience = {}) {
  std::string content;
  const int error = patiently(
      path.native(), [&] { return read_once(at, path, more_flags, limit, check, content); }, patience);
  if (error != 0) refuse_to_read(error, path);
  return content;
}

/// A file under the name that no other process of ours looks for; gone in the end.
class Taken {
 public:
  explicit Taken(const std::filesystem::path& path) : path_{path.string() + "." + unguessable() + ".own"} {
    FLOTILLA_REQUIRE(::rename(path.c_str(), path_.c_str()) == 0, read_error_kind(errno), path.string(), ": cannot be taken: ", reason());
  }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  ~Taken() { ::unlink(path_.c_str()); }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The end of ".<16 hexadecimal digits>.tmp", or npos.
std::size_t without_ending(std::string_view name) {
  constexpr std::size_t digits = 16, length = 1 + digits + 4;
  if (name.size() <= length || !(name.ends_with(".tmp") || name.ends_with(".own"))) return name.npos;
  const auto start = name.size() - length;
  const auto number = name.substr(start + 1, digits);
  const bool hexadecimal = number.find_first_not_of("0123456789abcdef") == number.npos;
  return name[start] == '.' && hexadecimal ? start : name.npos;
}

}  // namespace

std::string read_text(const std::filesystem::path& path, Bytes limit, const Patience& patience) {
  return read_of(path, path, 0, limit, {}, patience);
}

std::optional<std::string> read_text_if_there(const std::filesystem::path& path, Bytes limit) {
  std::string content;
  const int error = patiently(path.native(), [&] { return read_once(path, path, 0, limit, {}, content); });
  if (error == 0) return content;
  if (io_failure(error) == IoFailure::absent) return std::nullopt;
  refuse_to_read(error, path);
}

std::string take_own_text(const std::filesystem::path& path, Bytes limit) {
  const Taken taken{path};
  return read_of(taken.path(), path, O_NOFOLLOW, limit, [&](int, const struct stat& facts) {
    FLOTILLA_REQUIRE(facts.st_uid == ::geteuid() || facts.st_uid == 0, ErrorKind::bad_input, path.string(), ": belongs to user ",
                     facts.st_uid, " and the run to user ", ::geteuid(), "; only the run's owner may ask");
    FLOTILLA_REQUIRE((facts.st_mode & (S_IWGRP | S_IWOTH)) == 0, ErrorKind::bad_input, path.string(),
                     ": others may write it; chmod go-w (flotilla control writes it so)");
  });
}

namespace {

/// With none of the mode's bits that `most` lacks.
void write_within(const std::filesystem::path& path, std::string_view content, mode_t most, Flush flush) {
  if (own_descriptor(path.string()) >= 0) return write_through(path, content);
  struct stat name {
  }, target{};
  const int error = patiently(path.native(), [&] { return ::lstat(path.c_str(), &name) == 0 ? 0 : errno; });
  if (error != 0) {
    FLOTILLA_REQUIRE(io_failure(error) == IoFailure::absent, io_error_kind(error), path.string(),
                     ": cannot be written: ", std::strerror(error));
    return replace(path, content, std::nullopt, most, flush);
  }
  if (S_ISREG(name.st_mode)) return replace(path, content, name.st_mode & 0777 & most, most, flush);
  const bool leads_somewhere = ::stat(path.c_str(), &target) == 0;
  if (leads_somewhere && S_ISSOCK(target.st_mode)) return write_to_listener(path, content);
  const bool through = leads_somewhere && (S_ISCHR(target.st_mode) || S_ISBLK(target.st_mode) || S_ISFIFO(target.st_mode));
  FLOTILLA_REQUIRE(through, ErrorKind::unavailable, path.string(), ": is ",
                   S_ISLNK(name.st_mode)   ? "a symbolic link; name the file itself"
                   : S_ISDIR(name.st_mode) ? "a folder; name a file in it"
                                           : "no regular file; name another",
                   "; it is as it was");
  write_through(path, content, S_ISFIFO(target.st_mode) ? O_NONBLOCK : 0);
}

}  // namespace

void write_text(const std::filesystem::path& path, std::string_view content, Flush flush) { write_within(path, content, 0777, flush); }

void copy_text(const std::filesystem::path& from, const std::filesystem::path& to, const MayCopy& may_copy) {
  mode_t mode = 0;
  const auto content = read_of(from, from, 0, text_limit, [&](int file, const struct stat& facts) {
    mode = facts.st_mode & 0777;
    if (may_copy) may_copy(facts.st_uid, std::filesystem::read_symlink(text("/proc/self/fd/", file)));
  });
  write_within(to, content, mode, Flush::yes);
}

void make_folders(const std::filesystem::path& path) {
  std::filesystem::path folder;
  struct stat facts {};
  for (const auto& part : path) {
    folder /= part;
    const int error = patiently(folder.native(), [&] {
      if (::stat(folder.c_str(), &facts) == 0) return S_ISDIR(facts.st_mode) ? 0 : ENOTDIR;
      return ::mkdir(folder.c_str(), folder_mode) == 0 || errno == EEXIST ? 0 : errno;
    });
    FLOTILLA_REQUIRE(error != ENOTDIR, ErrorKind::bad_input, folder.string(), ": is not a folder; name another place");
    FLOTILLA_REQUIRE(error == 0, io_error_kind(error), folder.string(), ": cannot be made: ", std::strerror(error));
  }
  const int error = patiently(path.native(), [&] { return ::stat(path.c_str(), &facts) == 0 ? 0 : errno; });
  FLOTILLA_REQUIRE(error == 0, io_error_kind(error), path.string(), ": cannot be examined: ", std::strerror(error));
  FLOTILLA_REQUIRE(S_ISDIR(facts.st_mode), ErrorKind::bad_input, path.string(), ": is not a folder");
}

namespace {

/// Root's. A container without root's rights shows root's folders as another user's: "/" is one of them.
bool is_roots(uid_t user) {
  struct stat facts {};
  return user == 0 || (::stat("/", &facts) == 0 && user == facts.st_uid);
}

/// Whoever may rename a folder on the way can put another in its place after every look at it. Where everybody may write, only the owner of
/// a name may with the sticky bit; and who owns that folder, always.
void require_safe_way(const std::filesystem::path& path) {
  std::error_code unseen;
  auto folder = std::filesystem::weakly_canonical(path, unseen);
  FLOTILLA_REQUIRE(!unseen, io_error_kind(unseen.value()), path.string(), ": cannot be examined: ", unseen.message());
  while (folder.has_relative_path()) {
    folder = folder.parent_path();
    struct stat facts {};
    const int error = patiently(folder.native(), [&] { return ::stat(folder.c_str(), &facts) == 0 ? 0 : errno; });
    if (error != 0 && io_failure(error) == IoFailure::absent) continue;  // it will be ours, or cannot be made
    FLOTILLA_REQUIRE(error == 0, io_error_kind(error), folder.string(), ": cannot be examined: ", std::strerror(error));
    const bool own = facts.st_uid == ::geteuid() && (facts.st_mode & S_ISVTX) != 0;
    FLOTILLA_REQUIRE((facts.st_mode & S_IWOTH) == 0 || is_roots(facts.st_uid) || own, ErrorKind::bad_input, path.string(),
                     ": everybody may write into ", folder.string(), ", which belongs to user ", facts.st_uid,
                     "; chmod o-w, or name a folder elsewhere");
  }
}

}  // namespace

void make_own_folder(const std::filesystem::path& path) {
  // A slash behind a link would name what it leads to.
  const auto name = path.has_filename() ? path : path.parent_path();
  require_safe_way(name);  // before anything is made
  make_folders(name);
  struct stat facts {};
  const int error = patiently(name.native(), [&] { return ::lstat(name.c_str(), &facts) == 0 ? 0 : errno; });
  FLOTILLA_REQUIRE(error == 0, io_error_kind(error), name.string(), ": cannot be examined: ", std::strerror(error));
  FLOTILLA_REQUIRE(S_ISDIR(facts.st_mode), ErrorKind::bad_input, name.string(),
                   ": is a symbolic link, and could lead into another's files; name the folder itself, or move it away");
  FLOTILLA_REQUIRE(facts.st_uid == ::geteuid(), ErrorKind::bad_input, name.string(), ": belongs to user ", facts.st_uid,
                   " and this process to user ", ::geteuid(), "; name a folder of your own");
  FLOTILLA_REQUIRE((facts.st_mode & S_IWOTH) == 0, ErrorKind::bad_input, name.string(),
                   ": everybody may write into it; chmod o-w, or name another folder");
  require_safe_way(name);
}

std::string unguessable() {
  std::uint64_t number = 0;
  FLOTILLA_REQUIRE(::getrandom(&number, sizeof number, 0) == sizeof number, ErrorKind::unavailable,
                   "the kernel gives no random numbers: ", reason());
  return hex(number);
}

std::string_view stem_of_unfinished(std::string_view name) {
  std::string_view stem;
  for (auto end = without_ending(name); end != name.npos; end = without_ending(stem)) stem = name.substr(0, end);
  return stem;
}

}  // namespace flotilla::files
