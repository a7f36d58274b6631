#include "mpi_try.hpp"

#include <array>
#include <string>

#include "flotilla/base/error.hpp"

namespace flotilla::mpi {

void throw_mpi_error(const char* call, int code, std::source_location where) {
  std::array<char, MPI_MAX_ERROR_STRING> words{};
  int length = 0;
  MPI_Error_string(code, words.data(), &length);
  const std::string_view file{where.file_name()};
  const auto name = file.substr(file.rfind('/') + 1);
  const std::string_view function{call, std::string_view{call}.find('(')};
  throw Error{ErrorKind::communication, text(function, " failed: ", words.data(), " (code ", code, ", ", name, ":", where.line(), ")")};
}

}  // namespace flotilla::mpi
