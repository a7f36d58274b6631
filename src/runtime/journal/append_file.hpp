#pragma once
#include <cstdint>
#include <deque>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>

#include "flotilla/base/descriptor.hpp"

namespace flotilla::journal {

/// A file that only grows, record by record, none of them in part. Of lines, it ends with a line end whatever happened to its writers.
class AppendFile {
 public:
  AppendFile() = default;
  /// Makes or continues a file of lines. Throws Error{unavailable}.
  explicit AppendFile(const std::filesystem::path&);
  /// Makes a file that must not be there yet. Throws Error{unavailable}.
  static AppendFile fresh(const std::filesystem::path&);

  /// Bytes after the last line end that opening cut off.
  std::int64_t repaired_bytes() const { return repaired_bytes_; }
  /// In one write(). On failure returns errno and leaves the file without a part of the record; 0 when it is there.
  int append(std::string_view record) noexcept;

 private:
  Descriptor file_;
  std::int64_t repaired_bytes_ = 0;
};

/// Appends what must not stop a training. The first record that cannot be written (disk full) is reported on standard error, once; records
/// then wait, 10,000 at most, and are written in their order with the next one for which there is room. What is lost beyond is counted.
/// Thread-safe.
class PatientAppender {
 public:
  /// `what`: the file's name and that of its records, for the warning.
  struct What {
    std::string file, record, records;
  };
  PatientAppender(AppendFile file, What what) : file_{std::move(file)}, what_{std::move(what)} {}

  void append(std::string record) noexcept;
  /// One that could not even be made.
  void lose() noexcept;

  std::int64_t lost() const;
  std::int64_t repaired_bytes() const { return file_.repaired_bytes(); }

 private:
  AppendFile file_;
  What what_;
  mutable std::mutex mutex_;
  std::deque<std::string> waiting_;  ///< for room, the oldest first
  bool warned_ = false;
  std::int64_t lost_ = 0;
};

}  // namespace flotilla::journal
