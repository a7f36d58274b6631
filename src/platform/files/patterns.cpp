#include "flotilla/files/patterns.hpp"

#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "flotilla/base/io_failure.hpp"
#include "flotilla/files/look.hpp"

namespace flotilla::files {
namespace {

thread_local int unreadable = 0;  // errno of the last folder; glob() takes a plain function

int note_unreadable(const char*, int error) {
  unreadable = error;
  return error != ENOENT && error != ENOTDIR ? 1 : 0;
}

}  // namespace

std::vector<std::filesystem::path> matching_files(const std::string& name) {
  if (name.find_first_of("*?[") == name.npos || facts_of(name)) return {name};
  glob_t found{};
  const std::unique_ptr<glob_t, void (*)(glob_t*)> owner{&found, ::globfree};
  const int ended = ::glob(name.c_str(), GLOB_NOSORT, note_unreadable, &found);
  FLOTILLA_REQUIRE(ended != GLOB_ABORTED, read_error_kind(unreadable), name,
                   ": a folder on the way cannot be read: ", std::strerror(unreadable));
  FLOTILLA_REQUIRE(ended == 0 || ended == GLOB_NOMATCH, ErrorKind::unavailable, name, ": no memory to look for files that match it");
  FLOTILLA_REQUIRE(found.gl_pathc > 0, ErrorKind::no_input, name, ": no file matches this pattern");
  std::vector<std::filesystem::path> files(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  std::ranges::sort(files, {}, &std::filesystem::path::native);
  return files;
}

}  // namespace flotilla::files
