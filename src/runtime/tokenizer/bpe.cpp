#include "bpe.hpp"

#include <algorithm>
#include <span>

#include "byte_alphabet.hpp"
#include "flotilla/unicode/utf8.hpp"

namespace flotilla::tokenizer {
namespace {

constexpr std::uint32_t no_rank = ~std::uint32_t{0};
constexpr std::size_t longest_line = 48;  // beyond, looking for the smallest rank costs more than a heap
constexpr std::string_view hexadecimal = "0123456789ABCDEF";
constexpr std::string_view space_mark = "\xe2\x96\x81";  // U+2581, SentencePiece's space

std::uint32_t number_of(std::string_view character) {
  std::uint32_t number = 0;
  for (const char c : character) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}

std::int32_t find_or_none(const Vocabulary& vocabulary, std::string_view token) {
  const auto found = vocabulary.find(token);
  return found == vocabulary.end() ? -1 : found->second;
}

std::string fallback_name(std::size_t byte) { return {'<', '0', 'x', hexadecimal[byte >> 4], hexadecimal[byte & 15], '>'}; }

/// The byte that such a name is of.
std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6) return std::nullopt;
  const auto high = hexadecimal.find(token[3]), low = hexadecimal.find(token[4]);
  if (high == hexadecimal.npos || low == hexadecimal.npos || token != fallback_name(high << 4 | low)) return std::nullopt;
  return static_cast<char>(high << 4 | low);
}

}  // namespace

Bpe::Bpe(Vocabulary vocabulary, MergeTable merges, BpeOptions options)
    : vocabulary_{std::move(vocabulary)}, merges_{std::move(merges)}, options_{options} {
  const bool bytes = options_.alphabet == Alphabet::bytes;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    bytes_[byte] = !bytes && byte >= 0x80 ? -1 : find_or_none(vocabulary_, spelled({&c, 1}));
    fallback_[byte] = find_or_none(vocabulary_, fallback_name(byte));
  }
  for (const auto& [token, id] : vocabulary_) {
    if (!bytes && !token.empty() && unicode::character_bytes(token[0]) == token.size()) characters_.emplace(number_of(token), id);
    if (!options_.ignore_merges) continue;
    if (const auto text = bytes ? unspelled_bytes(token) : std::optional{token}) words_.emplace(*text, id);
  }
  apart_at_spaces_ = !bytes && !options_.ignore_merges && merges_end_at_spaces();
}

/// No token holds a space mark behind another character: none can come of a merge across that place. Then what stands on both sides of
/// it is encoded on its own, and the words of a text that no pre-tokenizer splits are found in the cache.
bool Bpe::merges_end_at_spaces() const {
  if (find_or_none(vocabulary_, space_mark) < 0) return false;
  return std::ranges::none_of(vocabulary_, [](const auto& entry) {
    std::string_view token = entry.first;
    while (token.starts_with(space_mark)) token.remove_prefix(space_mark.size());
    return token.find(space_mark) != token.npos;
  });
}

std::string Bpe::bytes_of(std::string_view token) const {
  if (options_.alphabet == Alphabet::bytes) return unspelled_bytes(token).value_or(std::string{token});
  if (const auto byte = fallback_byte(token); options_.byte_fallback && byte) return {*byte};
  std::string text;
  for (std::size_t at = 0; at < token.size();) {
    const bool space = token.substr(at).starts_with(space_mark);
    text += space ? ' ' : token[at];
    at += space ? space_mark.size() : 1;
  }
  return text;
}

void Bpe::encode(std::string_view word, Workspace& work, std::vector<std::int32_t>& tokens) const {
  if (apart_at_spaces_) return encode_apart(word, work, tokens);
  encode_cached(word, work, tokens);
}

void Bpe::encode_apart(std::string_view word, Workspace& work, std::vector<std::int32_t>& tokens) const {
  std::size_t begin = 0;
  for (auto mark = word.find(space_mark); mark != word.npos; mark = word.find(space_mark, mark + space_mark.size())) {
    const bool follows_mark = word.substr(0, mark).ends_with(space_mark);
    if (mark == begin || follows_mark) continue;
    encode_cached(word.substr(begin, mark - begin), work, tokens);
    begin = mark;
  }
  encode_cached(word.substr(begin), work, tokens);
}

void Bpe::encode_cached(std::string_view word, Workspace& work, std::vector<std::int32_t>& tokens) const {
  if (!WordCache::takes(word)) return encode_anew(word, work, tokens);
  const auto hash = WordCache::hash(word);
  if (work.cache.find(hash, word, tokens)) return;
  const auto before = tokens.size();
  encode_anew(word, work, tokens);
  work.cache.put(hash, word, std::span{tokens}.subspan(before));
}

void Bpe::encode_anew(std::string_view word, Workspace& work, std::vector<std::int32_t>& tokens) const {
  if (options_.ignore_merges)
    if (const auto whole = words_.find(word); whole != words_.end()) return tokens.push_back(whole->second);
  work.symbols.clear();
  find_symbols(word, work.symbols);
  if (work.symbols.size() <= longest_line) return merge_line(work, tokens);
  merge_chain(work, tokens);
}

/// As the library does: what is unknown is added when the next known character comes, so tokens of bytes can come before it.
void Bpe::find_symbols(std::string_view word, std::vector<std::int32_t>& symbols) const {
  bool unknown = false;
  const auto add_unknown = [&] {
    if (unknown) symbols.push_back(*options_.unknown);
    unknown = false;
  };
  for (std::size_t at = 0, bytes = 0; at < word.size(); at += bytes) {
    bytes = options_.alphabet == Alphabet::bytes ? 1 : unicode::character_bytes(word[at]);
    const auto character = word.substr(at, bytes);
    if (const auto token = token_of(character); token >= 0) {
      add_unknown();
      symbols.push_back(token);
    } else if (!(options_.byte_fallback && fall_back(character, symbols)) && options_.unknown) {
      if (!options_.fuse_unknown) add_unknown();
      unknown = true;
    }
  }
  add_unknown();
}

bool Bpe::fall_back(std::string_view character, std::vector<std::int32_t>& symbols) const {
  const auto bytes = spelled(character);
  const auto token = [this](char c) { return fallback_[static_cast<unsigned char>(c)]; };
  if (std::ranges::any_of(bytes, [&](char c) { return token(c) < 0; })) return false;
  std::ranges::transform(bytes, std::back_inserter(symbols), token);
  return true;
}

std::int32_t Bpe::token_of(std::string_view character) const {
  if (character.size() == 1) return bytes_[static_cast<unsigned char>(character[0])];
  const auto found = characters_.find(number_of(character));
  return found == characters_.end() ? -1 : found->second;
}

std::string Bpe::spelled(std::string_view character) const {
  return options_.alphabet == Alphabet::bytes ? spelled_bytes(character) : std::string{character};
}

/// Few symbols: in a row, with each the merge with its neighbour.
void Bpe::merge_line(Workspace& work, std::vector<std::int32_t>& tokens) const {
  auto& line = work.line;
  line.clear();
  for (const auto token : work.symbols) line.push_back({token, {no_rank, 0}});
  const auto look = [&](std::size_t left) {
    const auto* merge = left + 1 < line.size() ? merges_.find(line[left].token, line[left + 1].token) : nullptr;
    line[left].next = merge ? *merge : Merge{no_rank, 0};
  };
  for (std::size_t left = 0; left < line.size(); ++left) look(left);
  while (line.size() > 1) {
    const auto first = std::ranges::min_element(line, {}, [](const auto& symbol) { return symbol.next.rank; });
    if (first->next.rank == no_rank) break;
    first->token = first->next.token;
    const auto left = static_cast<std::size_t>(line.erase(first + 1) - line.begin()) - 1;
    look(left);
    if (left > 0) look(left - 1);
  }
  for (const auto& symbol : line) tokens.push_back(symbol.token);
}

/// Many symbols: a chain, and a heap of merges, of which some have gone stale when they come up.
void Bpe::merge_chain(Workspace& work, std::vector<std::int32_t>& tokens) const {
  const auto count = static_cast<std::int32_t>(work.symbols.size());
  work.chain.clear();
  work.heap.clear();
  for (std::int32_t at = 0; at < count; ++at)
    work.chain.push_back({work.symbols[static_cast<std::size_t>(at)], at - 1, at + 1 < count ? at + 1 : -1});
  for (std::int32_t at = 0; at + 1 < count; ++at) push(work, at);
  while (!work.heap.empty()) {
    std::pop_heap(work.heap.begin(), work.heap.end());
    const auto best = work.heap.back();
    work.heap.pop_back();
    const auto left = static_cast<std::int32_t>(best.rank_and_place & 0xffffffffu);
    const auto& link = work.chain[static_cast<std::size_t>(left)];
    if (link.token != best.left || link.after < 0 || work.chain[static_cast<std::size_t>(link.after)].token != best.right) continue;
    join(work, left, best.token);
  }
  for (std::int32_t at = 0; at >= 0; at = work.chain[static_cast<std::size_t>(at)].after)
    tokens.push_back(work.chain[static_cast<std::size_t>(at)].token);
}

void Bpe::push(Workspace& work, std::int32_t left) const {
  const auto& link = work.chain[static_cast<std::size_t>(left)];
  if (link.after < 0) return;
  const auto right = work.chain[static_cast<std::size_t>(link.after)].token;
  const auto* merge = merges_.find(link.token, right);
  if (!merge) return;
  work.heap.push_back({std::uint64_t{merge->rank} << 32 | static_cast<std::uint32_t>(left), link.token, right, merge->token});
  std::push_heap(work.heap.begin(), work.heap.end());
}

void Bpe::join(Workspace& work, std::int32_t left, std::int32_t token) const {
  auto& link = work.chain[static_cast<std::size_t>(left)];
  auto& gone = work.chain[static_cast<std::size_t>(link.after)];
  link.token = token;
  link.after = gone.after;
  gone.token = -1;
  if (link.after >= 0) work.chain[static_cast<std::size_t>(link.after)].before = left;
  if (link.before >= 0) push(work, link.before);
  push(work, left);
}

}  // namespace flotilla::tokenizer
