#pragma once
#include <string>

#include "flotilla/base/text.hpp"

namespace flotilla::log {

enum class Level { error, warning, info, debug };

/// Lines above this level are dropped. Default: info.
void set_level(Level) noexcept;
/// One line on standard error (message_line()), written in one call so that ranks do not mix. Thread-safe.
void write(Level, const std::string& line);

template <class... Parts>
void error(const Parts&... parts) {
  write(Level::error, text(parts...));
}
template <class... Parts>
void warning(const Parts&... parts) {
  write(Level::warning, text(parts...));
}
template <class... Parts>
void info(const Parts&... parts) {
  write(Level::info, text(parts...));
}
template <class... Parts>
void debug(const Parts&... parts) {
  write(Level::debug, text(parts...));
}

}  // namespace flotilla::log
