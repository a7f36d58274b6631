#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "flotilla/base/descriptor.hpp"

namespace flotilla::journal {

/// A file of lines that only grows, and ends with a line end whatever happened to its writers.
class AppendFile {
 public:
  AppendFile() = default;
  /// Makes or continues it. Throws Error{unavailable}.
  explicit AppendFile(const std::filesystem::path&);

  /// Bytes after the last line end that opening cut off.
  std::int64_t repaired_bytes() const { return repaired_bytes_; }
  /// `line` with its line end, in one write(). On failure returns errno and leaves the file without a part of it; 0 when it is there.
  int append(std::string_view line) noexcept;

 private:
  Descriptor file_;
  std::int64_t repaired_bytes_ = 0;
};

}  // namespace flotilla::journal
