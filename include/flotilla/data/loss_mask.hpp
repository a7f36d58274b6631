#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include "flotilla/store/mapped_file.hpp"

/// Which tokens of a Megatron pair count in the loss: NAME.mask beside NAME.bin (docs/formats/tokens.md).
namespace flotilla::data {

/// Tokens [first, last) of a file.
struct TokenRun {
  std::int64_t first = 0, last = 0;
};

/// A mask, memory-mapped: a bit for each token. A token counts where it is to be predicted; as what others are predicted from, every token
/// is used. Reading is thread-safe.
class LossMask {
 public:
  /// The mask's name beside a .bin.
  static std::filesystem::path beside(std::filesystem::path tokens) { return tokens.replace_extension(".mask"); }
  /// Throws Error{bad_input}: file, byte, what was expected, where it is no mask of so many tokens.
  static LossMask open(const std::filesystem::path&, std::int64_t tokens);

  bool counts(std::int64_t token) const;
  /// Puts ~token for each that does not count. The span begins at `first`. Throws Error{bad_input} when the file was cut since it was
  /// opened.
  void mark(std::int64_t first, std::span<std::int32_t> tokens) const;
  /// Of tokens [first, last), how many count. Throws likewise.
  std::int64_t count(std::int64_t first, std::int64_t last) const;
  /// Whether any of them does. Throws likewise.
  bool any(std::int64_t first, std::int64_t last) const;
  std::span<const std::byte> bytes() const { return file_.bytes(); }

 private:
  explicit LossMask(store::MappedFile file) : file_{std::move(file)} {}
  store::MappedFile file_;
};

/// Writes a mask of `tokens` tokens, of which those of the runs do not count. `runs` are ascending and apart: `next` fills in the next one,
/// false at the end. Bounded memory; flushed to the disk. Throws Error{unavailable, temporary} with the path.
void write_loss_mask(const std::filesystem::path&, std::int64_t tokens, const std::function<bool(TokenRun&)>& next);

}  // namespace flotilla::data
