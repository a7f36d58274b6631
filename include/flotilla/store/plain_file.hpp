#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "flotilla/base/descriptor.hpp"
#include "flotilla/base/units.hpp"

namespace flotilla::store {

/// A file by plain reads and writes at given places, past HDF5. Local. A disk that is full or away is waited for
/// (flotilla/base/patience.hpp); then Error{temporary}, or Error{unavailable} for what no waiting mends, in one line with the path.
class PlainFile {
 public:
  static PlainFile open_for_reading(const std::filesystem::path&);
  /// An existing regular file of this user's under one name; links are not followed.
  static PlainFile open_for_writing(const std::filesystem::path&);
  /// The first `size` bytes of a longer file stay.
  void cut_to(Bytes size) const;
  /// A new file, or one of that name emptied, as open_for_writing() takes it.
  static PlainFile create(const std::filesystem::path&);
  /// A file of `size` zero bytes in memory, of which only written pages take room; path() is a name that this process can open.
  static PlainFile in_memory(Bytes size);

  const std::filesystem::path& path() const noexcept { return path_; }
  Bytes size() const;

  /// All of `bytes`. Throws Error{bad_input} where the file ends before.
  void read(std::span<std::byte> bytes, std::int64_t offset) const;
  void write(std::span<const std::byte> bytes, std::int64_t offset) const;
  /// Waits until what was written is on the disk. Never repeated: a second try would report success although data was lost.
  void flush() const;

 private:
  PlainFile(std::filesystem::path path, Descriptor file) : path_{std::move(path)}, file_{std::move(file)} {}

  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace flotilla::store
