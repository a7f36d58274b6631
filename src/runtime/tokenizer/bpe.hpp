#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "merge_table.hpp"
#include "word_cache.hpp"

namespace flotilla::tokenizer {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
using Vocabulary = std::unordered_map<std::string, std::int32_t, StringHash, std::equal_to<>>;

/// What characters merges begin from.
enum class Alphabet {
  characters,  ///< those of the text
  bytes,       ///< its bytes, spelled as the 256 characters of GPT-2's byte-level vocabularies
};

struct BpeOptions {
  Alphabet alphabet = Alphabet::characters;
  std::optional<std::int32_t> unknown;  ///< for what has no token; none: left out
  bool fuse_unknown = false;            ///< neighbouring unknown characters are one token
  bool byte_fallback = false;           ///< unknown characters are tokens <0x00> to <0xFF> where all of theirs exist
  bool ignore_merges = false;           ///< a word that is a token is that token, whatever the merges say
};

/// Byte-pair encoding of words: repeatedly the pair of smallest rank, the leftmost of equals. Const members are thread-safe.
class Bpe {
 public:
  /// `vocabulary` as tokenizer.json spells it; `merges` of the same numbers.
  Bpe(Vocabulary vocabulary, MergeTable merges, BpeOptions);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// What a token of the vocabulary stands for in a text.
  std::string bytes_of(std::string_view token) const;

  /// Scratch memory of a thread.
  struct Workspace {
    struct Symbol {
      std::int32_t token = 0;
      Merge next;  ///< with the symbol that follows
    };
    struct Link {
      std::int32_t token = 0;
      std::int32_t before = 0, after = 0;
    };
    struct Candidate {
      std::uint64_t rank_and_place = 0;
      std::int32_t left = 0, right = 0, token = 0;
      bool operator<(const Candidate& other) const { return rank_and_place > other.rank_and_place; }  // heaps give the largest
    };
    std::vector<std::int32_t> symbols;
    std::vector<Symbol> line;
    std::vector<Link> chain;
    std::vector<Candidate> heap;
    WordCache cache;
  };

  /// Appends the tokens of a word (of a pre-tokenizer's; not empty).
  void encode(std::string_view word, Workspace&, std::vector<std::int32_t>& tokens) const;

 private:
  void encode_apart(std::string_view word, Workspace&, std::vector<std::int32_t>& tokens) const;
  void encode_cached(std::string_view word, Workspace&, std::vector<std::int32_t>& tokens) const;
  void encode_anew(std::string_view word, Workspace&, std::vector<std::int32_t>& tokens) const;
  void find_symbols(std::string_view word, std::vector<std::int32_t>& symbols) const;
  bool fall_back(std::string_view character, std::vector<std::int32_t>& symbols) const;
  std::int32_t token_of(std::string_view character) const;
  std::string spelled(std::string_view character) const;
  void merge_line(Workspace&, std::vector<std::int32_t>& tokens) const;
  void merge_chain(Workspace&, std::vector<std::int32_t>& tokens) const;
  void push(Workspace&, std::int32_t left) const;
  void join(Workspace&, std::int32_t left, std::int32_t token) const;
  bool merges_end_at_spaces() const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  BpeOptions options_;
  Vocabulary words_;                                            ///< by the text they stand for; only if merges are ignored
  std::array<std::int32_t, 256> bytes_{};                       ///< tokens of bytes, or of characters below U+0080; -1: none
  std::array<std::int32_t, 256> fallback_{};                    ///< <0x00> to <0xFF>; -1: none
  std::unordered_map<std::uint32_t, std::int32_t> characters_;  ///< by their bytes of UTF-8, as one number
  bool apart_at_spaces_ = false;
};

}  // namespace flotilla::tokenizer
