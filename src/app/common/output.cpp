#include <filesystem>
#include <iostream>

#include "app/common/job.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/text_file.hpp"

namespace flotilla::app {
namespace {

/// The file that a user's link leads to: it is replaced, and the link stays. What leads into the kernel (/dev/stdout, /proc/self/fd/1) is
/// itself what is meant.
std::filesystem::path behind_links(const std::filesystem::path& path) {
  const auto& name = path.native();
  if (name.starts_with("/dev/") || name.starts_with("/proc/")) return path;
  std::error_code none;
  const bool leads_to_a_file = std::filesystem::is_symlink(path, none) && std::filesystem::is_regular_file(path, none);
  return leads_to_a_file ? std::filesystem::canonical(path) : path;
}

}  // namespace

void write_output(const Job::Output& output, const std::string& text) {
  if (!output.file.empty()) return files::write_text(behind_links(output.file), text);
  std::cout << text << std::flush;
  FLOTILLA_REQUIRE(std::cout, ErrorKind::unavailable, "standard output cannot be written; is the disk full?");
}

}  // namespace flotilla::app
