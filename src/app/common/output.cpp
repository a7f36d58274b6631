#include <filesystem>
#include <iostream>

#include "app/common/job.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/files/text_file.hpp"

namespace flotilla::app {
namespace {

/// The file that a user's link leads to: it is replaced, and the link stays. A link of the kernel (/dev/stdout, /dev/fd/3) on the way is
/// an open file, which is written and not replaced.
std::filesystem::path behind_links(const std::filesystem::path& path) {
  constexpr int most = 40;  // as the kernel follows
  std::error_code none;
  auto at = path;
  for (int hop = 0; hop < most && std::filesystem::is_symlink(at, none); ++hop) {
    const auto folder = std::filesystem::canonical(at.has_parent_path() ? at.parent_path() : ".", none);
    if (none || folder.native().starts_with("/proc/")) return path;
    at = folder / std::filesystem::read_symlink(at, none);
  }
  return std::filesystem::is_regular_file(at, none) ? at : path;
}

}  // namespace

void write_output(const Job::Output& output, const std::string& text) {
  if (!output.file.empty()) return files::write_text(behind_links(output.file), text);
  write_bytes(printable_output(text));
}

void write_bytes(std::string_view bytes) {
  std::cout << bytes << std::flush;
  FLOTILLA_REQUIRE(std::cout, ErrorKind::unavailable, "standard output cannot be written; is the disk full?");
}

}  // namespace flotilla::app
