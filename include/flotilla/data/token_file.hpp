#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "flotilla/data/format.hpp"
#include "flotilla/data/loss_mask.hpp"

namespace flotilla::data {

/// One token file, memory-mapped for as long as the value lives. Reading is thread-safe. Move-only.
class TokenFile {
 public:
  /// Checks header, counts and sizes, not every token. Megatron: the .idx, the .bin or their common prefix, and the .mask beside them, if
  /// there is one.
  /// Throws Error{bad_input}: file, byte offset, what was expected.
  static TokenFile open(const std::filesystem::path&, Format = Format::automatic);

  TokenFile(TokenFile&&) noexcept;
  TokenFile& operator=(TokenFile&&) noexcept;
  ~TokenFile();

  /// The file that holds the tokens (Megatron: the .bin).
  const std::filesystem::path& path() const;
  Format format() const;      ///< never `automatic`
  std::int64_t size() const;  ///< tokens
  /// Which tokens count in the loss; nullptr: all of them.
  const LossMask* mask() const;

  /// Tokens [first, first + tokens.size()), every one of them checked to be in [0, vocabulary).
  /// Throws Error{bad_input} with file and byte offset for a token outside the vocabulary, or when the file shrank since it was opened.
  void read(std::int64_t first, std::span<std::int32_t> tokens, int vocabulary) const;

  /// Whether the file says where documents end, as Megatron's index does.
  bool has_documents() const;
  /// Of the tokens [first, first + starts.size()): the place among them where each one's document begins; 0 where that is before them. A
  /// document ends where the index says so, and behind every token `end`. Throws Error{bad_input} with file and byte offset for a damaged
  /// index, or when the file shrank since it was opened.
  void document_starts(std::int64_t first, std::span<std::int32_t> starts, std::optional<std::int32_t> end) const;

  /// Reads every token of [first, last) and the whole of a Megatron index; throws like `read`. Takes as long as reading the file.
  void scan(std::int64_t first, std::int64_t last, int vocabulary) const;

  /// 64 bits over format, sizes and content, a mask's too, not over the name. All bytes of a file under 64 MiB; of a larger one 256 blocks
  /// of 64 KiB: the first, the last and others evenly between. Throws Error{bad_input} when the file shrank since it was opened.
  std::uint64_t fingerprint() const;

 private:
  struct State;
  explicit TokenFile(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

}  // namespace flotilla::data
