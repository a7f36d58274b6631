#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "flotilla/base/unique_handle.hpp"

namespace flotilla::store {

struct MappingTraits {
  struct Raw {
    void* address = nullptr;
    std::size_t size = 0;
    bool operator==(const Raw&) const = default;
  };
  static Raw null() noexcept { return {}; }
  static void destroy(Raw) noexcept;
};

/// A whole file, mapped for reading. The file descriptor is closed again, so thousands of files are no trouble.
class MappedFile {
 public:
  MappedFile() = default;
  /// `expected` is what the file should be, for errors: "a token file".
  /// Throws Error{no_input}: missing, not readable; Error{bad_input}: not a regular file, empty.
  static MappedFile open(const std::filesystem::path&, std::string_view expected);

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(mapping_.get().address), mapping_.get().size}; }
  /// Throws Error{bad_input} when the file was cut since it was mapped: reading beyond its end would kill the process (SIGBUS).
  void require_whole() const;
  /// Takes the pages that were read out of this process's resident memory; reading them again is valid.
  void forget() const;

 private:
  std::filesystem::path path_;
  UniqueHandle<MappingTraits> mapping_;
  unsigned long device_ = 0, inode_ = 0;
};

}  // namespace flotilla::store
