#include "flotilla/base/print.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "flotilla/base/foreign_text.hpp"

namespace flotilla {
namespace {

constexpr std::size_t most_at_once = 2048;      ///< half a launcher's block
constexpr std::chrono::milliseconds pause{20};  ///< in which a launcher has forwarded a piece, unless the machine is busy

/// Whole lines of at most `most_at_once` bytes, or one longer line.
std::string_view first_piece(std::string_view lines) {
  if (lines.size() <= most_at_once) return lines;
  auto newline = lines.rfind('\n', most_at_once - 1);
  if (newline == std::string_view::npos) newline = lines.find('\n');
  return lines.substr(0, newline == std::string_view::npos ? lines.size() : newline + 1);
}

bool write_piece(std::string_view piece) {
  while (!piece.empty()) {
    const auto written = ::write(STDOUT_FILENO, piece.data(), piece.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    piece.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// Somebody else puts the streams together; in a file every byte already has its place.
bool is_read_by_somebody() {
  struct stat status {};
  return ::fstat(STDOUT_FILENO, &status) == 0 && !S_ISREG(status.st_mode);
}

}  // namespace

bool print(std::string_view foreign) {
  const auto printed = printable_output(foreign);
  std::string_view lines = printed;
  if (std::fflush(stdout) != 0) return false;
  const bool is_read = is_read_by_somebody();
  while (!lines.empty()) {
    const auto piece = first_piece(lines);
    if (!write_piece(piece)) return false;
    lines.remove_prefix(piece.size());
    if (is_read && !lines.empty()) std::this_thread::sleep_for(pause);
  }
  return true;
}

}  // namespace flotilla
