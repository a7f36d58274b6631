#pragma once
#include <string>

#include "flotilla/base/exit_code.hpp"

namespace flotilla::comm {

/// Why a rank ends the job: exit code by kind of error, one line.
struct LastWords {
  ExitCode code = ExitCode::internal;
  std::string line;
  bool operator==(const LastWords&) const = default;
};
/// Of the exception being handled; call inside a catch block.
LastWords last_words() noexcept;

}  // namespace flotilla::comm
