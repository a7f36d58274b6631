#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// SentencePiece's `.model` files, by its own library.
namespace flotilla::sentencepiece {

/// One model. Const members are thread-safe.
class Processor {
 public:
  /// Throws Error{bad_input} with the path for what is no model, Error{unavailable} where the library was not linked.
  static Processor open(const std::filesystem::path&);
  Processor(Processor&&) noexcept;
  Processor& operator=(Processor&&) noexcept;
  ~Processor();

  int vocabulary() const;
  /// The piece's number, if it is one.
  std::optional<std::int32_t> id_of(std::string_view piece) const;
  /// The piece that ends a text, if the model has one.
  std::optional<std::int32_t> end_of_text() const;
  /// What the piece stands for in a text; nothing for control pieces and for a number without a piece.
  std::string bytes_of(std::int32_t id) const;
  /// Appends the numbers of `text`, valid UTF-8.
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const;

 private:
  struct State;
  explicit Processor(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

/// "SentencePiece 0.1.97", or that it was not linked.
std::string library_version();

}  // namespace flotilla::sentencepiece
