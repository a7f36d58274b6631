// Compiled where zlib is absent.
#include "flotilla/base/error.hpp"
#include "source.hpp"

namespace flotilla::compression {

std::unique_ptr<InputStream::Source> gzip_source(FileBytes file) {
  throw Error{ErrorKind::unavailable,
              text(file.path().string(), ": gzip data; built without zlib: install zlib1g-dev and build anew, or decompress it")};
}
std::string gzip_version() { return "built without zlib"; }

}  // namespace flotilla::compression
