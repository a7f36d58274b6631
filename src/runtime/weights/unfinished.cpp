#include "unfinished.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "flotilla/base/error.hpp"
#include "flotilla/base/io_failure.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/store/disk.hpp"

namespace flotilla::weights {

namespace fs = std::filesystem;

Unfinished::Unfinished(const fs::path& final_name) : final_{final_name.has_filename() ? final_name : final_name.parent_path()} {
  FLOTILLA_REQUIRE(!files::facts_of(final_), ErrorKind::bad_input, final_.string(), ": exists and is not overwritten; write another name");
  path_ = final_.string() + "." + files::unguessable() + ".tmp";
}

Unfinished::~Unfinished() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void Unfinished::finish() const {
  store::flush(path_);
  int error = ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, final_.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
  if (error == EINVAL && !files::facts_of(final_))  // a file system without this kind of rename, such as NFS
    error = ::rename(path_.c_str(), final_.c_str()) == 0 ? 0 : errno;
  FLOTILLA_REQUIRE(error == 0, io_error_kind(error), final_.string(), ": cannot be made: ", std::strerror(error));
}

}  // namespace flotilla::weights
