// Compiled where zstd is absent.
#include "flotilla/base/error.hpp"
#include "source.hpp"

namespace flotilla::compression {

std::unique_ptr<InputStream::Source> zstd_source(FileBytes file) {
  throw Error{ErrorKind::unavailable,
              text(file.path().string(), ": zstd data; built without zstd: install libzstd-dev and build anew, or decompress it")};
}
std::string zstd_version() { return "built without zstd"; }

}  // namespace flotilla::compression
