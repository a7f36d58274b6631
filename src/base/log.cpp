#include "flotilla/base/log.hpp"

#include <unistd.h>

#include <atomic>

#include "flotilla/base/foreign_text.hpp"

namespace flotilla::log {
namespace {

std::atomic<Level> limit{Level::info};

const char* mark(Level level) {
  switch (level) {
    case Level::error: return "error: ";
    case Level::warning: return "warning: ";
    case Level::debug: return "debug: ";
    case Level::info: break;
  }
  return "";
}

}  // namespace

void set_level(Level level) noexcept { limit = level; }

void write(Level level, const std::string& line) {
  if (level > limit.load()) return;
  const std::string all = message_line(text("flotilla: ", mark(level), line)) + "\n";
  const char* data = all.data();
  for (std::size_t left = all.size(); left > 0;) {
    const auto written = ::write(STDERR_FILENO, data, left);
    if (written <= 0) return;
    data += written;
    left -= static_cast<std::size_t>(written);
  }
}

}  // namespace flotilla::log
