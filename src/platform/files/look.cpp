#include "flotilla/files/look.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "flotilla/base/io_failure.hpp"

namespace flotilla::files {
namespace {

FileType type_of(mode_t mode) {
  return S_ISREG(mode) ? FileType::regular : S_ISDIR(mode) ? FileType::folder : S_ISLNK(mode) ? FileType::link : FileType::other;
}

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

/// 0 or errno.
int read_names(const std::filesystem::path& path, std::vector<std::string>& names) {
  names.clear();
  const std::unique_ptr<DIR, CloseFolder> folder{::opendir(path.c_str())};
  if (!folder) return errno;
  for (errno = 0; const dirent* entry = ::readdir(folder.get()); errno = 0)
    if (const std::string name = entry->d_name; name != "." && name != "..") names.push_back(name);
  return errno;
}

/// Whether a look worked; false: there is no such thing.
bool seen(int error, const std::filesystem::path& path) {
  if (error == 0) return true;
  if (io_failure(error) == IoFailure::absent) return false;
  throw Error{io_error_kind(error), text(path.string(), ": cannot be examined: ", std::strerror(error))};
}

}  // namespace

std::optional<FileFacts> facts_of(const std::filesystem::path& path, const Patience& patience) {
  struct stat facts {};
  const int error = patiently(
      path.native(), [&] { return ::lstat(path.c_str(), &facts) == 0 ? 0 : errno; }, patience);
  if (!seen(error, path)) return std::nullopt;
  return FileFacts{type_of(facts.st_mode),
                   {facts.st_size},
                   static_cast<double>(facts.st_mtim.tv_sec) + 1e-9 * static_cast<double>(facts.st_mtim.tv_nsec),
                   facts.st_ino,
                   facts.st_uid,
                   facts.st_uid == ::geteuid()};
}

void require_there(const std::filesystem::path& path, std::string_view expected) {
  FLOTILLA_REQUIRE(facts_of(path), ErrorKind::no_input, path.string(), ": no such file or folder; expected ", expected);
}

std::optional<std::vector<std::string>> names_in(const std::filesystem::path& folder, const Patience& patience) {
  std::vector<std::string> names;
  const int error = patiently(
      folder.native(), [&] { return read_names(folder, names); }, patience);
  if (!seen(error, folder)) return std::nullopt;
  std::ranges::sort(names);
  return names;
}

}  // namespace flotilla::files
