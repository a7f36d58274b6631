#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "flotilla/base/precision.hpp"
#include "flotilla/store/mapped_file.hpp"

/// Hugging Face's safetensors: a length, a header in JSON, and the tensors' bytes. docs/formats/safetensors.md.
namespace flotilla::safetensors {

/// One tensor, as a file's header declares it.
struct Entry {
  std::string name;
  std::string type;                    ///< as it is written: "F32", "BF16", "BOOL"
  std::optional<Precision> precision;  ///< of the types that weights have; nothing for the others, which cannot be read
  std::vector<std::int64_t> shape;
  std::int64_t first = 0, bytes = 0;  ///< in the file
  std::int64_t elements() const;
};

/// One file, memory-mapped for as long as the value lives. Reading is thread-safe. Move-only. Local.
class SafetensorsFile {
 public:
  /// Checks the whole header: types, extents, and ranges that neither overlap nor leave gaps.
  /// Throws Error{bad_input}: file, place in the header, what was expected.
  static SafetensorsFile open(const std::filesystem::path&);
  /// A file of another format in which tensors stand as here: the caller has checked that each lies inside of it and has a precision.
  static SafetensorsFile of(store::MappedFile, std::vector<Entry>);

  const std::filesystem::path& path() const { return mapping_.path(); }
  /// In the order of their bytes.
  const std::vector<Entry>& entries() const { return entries_; }

  /// Elements first, first + stride, ... of the row-major whole, as fp32; `entry` is one of entries() and has a precision. Returns the
  /// greatest magnitude: not a number where an element is none, else infinite where one is.
  float read(const Entry&, std::int64_t first, std::int64_t stride, std::span<float> values) const;
  /// Throws Error{bad_input} when the file was cut since it was opened: reading beyond its end would kill the process.
  void require_whole() const { mapping_.require_whole(); }
  /// Takes what was read out of this process's resident memory.
  void forget() const { mapping_.forget(); }

 private:
  store::MappedFile mapping_;
  std::vector<Entry> entries_;
};

}  // namespace flotilla::safetensors
