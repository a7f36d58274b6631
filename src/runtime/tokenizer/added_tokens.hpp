#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "flotilla/unicode/regex.hpp"

namespace flotilla::tokenizer {

/// A token that is found in the text before anything else happens to it.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool single_word = false;  ///< only between characters that are of no word
  bool lstrip = false;       ///< takes the white space before it along
  bool rstrip = false;       ///< and behind it
  bool normalized = false;   ///< is looked for in the normalized text
  bool special = false;
};

/// Finds added tokens: the leftmost, the longest of those that begin there, the first given of equals. Const members are thread-safe.
class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken>);

  /// Splits `text`, in order, into added tokens and what is between them (no token), which is not empty; calls `take` with each.
  using Take = std::function<void(std::string_view part, std::optional<std::int32_t> token)>;
  void split(std::string_view text, unicode::MatchEffort&, const Take& take) const;

 private:
  struct Found {
    std::size_t first = 0, last = 0;
    const AddedToken* token = nullptr;
  };
  void insert(const std::string& content, std::size_t number);
  std::optional<Found> find(std::string_view text, std::size_t from, unicode::MatchEffort&) const;
  std::optional<Found> longest_at(std::string_view text, std::size_t at, unicode::MatchEffort&) const;
  bool stands_alone(std::string_view text, const Found&, unicode::MatchEffort&) const;
  void strip(std::string_view text, std::size_t from, Found&, unicode::MatchEffort&) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::uint64_t, std::uint32_t> next_;  ///< of (node, byte) in the tree of contents
  std::vector<std::int64_t> ends_{-1};                     ///< by node: the token that ends there, or -1
  std::vector<bool> begins_ = std::vector<bool>(256);
};

}  // namespace flotilla::tokenizer
