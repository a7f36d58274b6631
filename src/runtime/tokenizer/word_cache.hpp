#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace flotilla::tokenizer {

/// Short words that were encoded lately, with their tokens. One place a word; a newcomer takes it. For one thread.
class WordCache {
 public:
  static constexpr std::size_t longest_word = 26, most_tokens = 6;

  WordCache() : entries_(std::size_t{1} << bits) {}

  static bool takes(std::string_view word) { return word.size() <= longest_word; }
  static std::uint64_t hash(std::string_view word) {
    std::uint64_t hash = word.size() * multiplier;
    for (std::size_t at = 0; at < word.size(); at += 8) {
      std::uint64_t block = 0;
      std::memcpy(&block, word.data() + at, std::min<std::size_t>(8, word.size() - at));
      hash = (hash ^ block) * multiplier;
      hash ^= hash >> 29;
    }
    return hash * multiplier;
  }

  /// Appends the word's tokens; false where it is not here.
  bool find(std::uint64_t hash, std::string_view word, std::vector<std::int32_t>& tokens) const {
    const auto& entry = entries_[hash >> (64 - bits)];
    if (entry.bytes != word.size() || std::memcmp(entry.word.data(), word.data(), word.size()) != 0) return false;
    tokens.insert(tokens.end(), entry.tokens.begin(), entry.tokens.begin() + entry.count);
    return true;
  }
  void put(std::uint64_t hash, std::string_view word, std::span<const std::int32_t> tokens) {
    if (tokens.size() > most_tokens) return;
    auto& entry = entries_[hash >> (64 - bits)];
    entry.bytes = static_cast<std::uint8_t>(word.size());
    entry.count = static_cast<std::uint8_t>(tokens.size());
    std::memcpy(entry.word.data(), word.data(), word.size());
    std::ranges::copy(tokens, entry.tokens.begin());
  }

 private:
  static constexpr int bits = 16;
  static constexpr std::uint64_t multiplier = 0x9e3779b97f4a7c15u;
  struct Entry {  // 52 bytes
    std::array<std::int32_t, most_tokens> tokens{};
    std::uint8_t bytes = 0, count = 0;  ///< no bytes: free, and a word of none has no tokens
    std::array<char, longest_word> word{};
  };
  std::vector<Entry> entries_;
};

}  // namespace flotilla::tokenizer
