#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "flotilla/base/precision.hpp"
#include "flotilla/store/plain_file.hpp"

namespace flotilla::safetensors {

/// A tensor to write.
struct Declared {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t elements() const;
};

/// Writes one file from front to back, in bounded memory. Local.
class Writer {
 public:
  /// Creates the file, or empties it, makes sure that there is room for all of it, and writes the header.
  /// Throws Error{temporary, unavailable}.
  Writer(const std::filesystem::path&, const std::vector<Declared>&, Precision);
  /// A file of another format: `header`, then so many elements.
  Writer(const std::filesystem::path&, std::span<const std::byte> header, std::int64_t elements, Precision);

  /// The next elements, tensor after tensor, row-major, rounded to nearest even. Throws Error{bad_input} for a finite value that the
  /// precision cannot hold (fp16 beyond 65504), else Error{temporary, unavailable}.
  void write(std::span<const float> values);
  /// Waits until all is on the disk. All elements must have been written.
  void close();

 private:
  store::PlainFile file_;
  Precision precision_;
  std::int64_t at_ = 0, end_ = 0;  ///< bytes in the file
  std::vector<std::byte> buffer_;
};

/// The text of model.safetensors.index.json: by tensor the name of its file, and the bytes of all tensors.
std::string index_text(const std::map<std::string, std::string>& file_of_tensor, std::int64_t bytes);

}  // namespace flotilla::safetensors
