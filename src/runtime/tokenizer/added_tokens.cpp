#include "added_tokens.hpp"

#include <algorithm>

#include "flotilla/unicode/utf8.hpp"

namespace flotilla::tokenizer {
namespace {

/// The character before `at`, or the one that begins there; empty at the text's ends.
std::string_view character_before(std::string_view text, std::size_t at) {
  auto begin = at;
  while (begin > 0 && !unicode::begins_character(text[--begin])) {
  }
  return text.substr(begin, at - begin);
}
std::string_view character_at(std::string_view text, std::size_t at) {
  return at == text.size() ? std::string_view{} : text.substr(at, unicode::character_bytes(text[at]));
}

bool is_of_a_word(std::string_view character, unicode::MatchEffort& effort) {
  static const unicode::Regex word{R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}])"};
  return !character.empty() && word.find(character, 0, effort);
}
bool is_white_space(std::string_view character, unicode::MatchEffort& effort) {
  static const unicode::Regex space{R"(\s)"};
  return !character.empty() && space.find(character, 0, effort);
}

std::uint64_t branch(std::int64_t node, char byte) { return static_cast<std::uint64_t>(node) << 8 | static_cast<unsigned char>(byte); }

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_{std::move(tokens)} {
  for (std::size_t number = 0; number < tokens_.size(); ++number)
    if (!tokens_[number].content.empty()) insert(tokens_[number].content, number);
}

void AddedTokens::insert(const std::string& content, std::size_t number) {
  begins_[static_cast<unsigned char>(content[0])] = true;
  std::int64_t node = 0;
  for (const char c : content) {
    const auto [entry, fresh] = next_.emplace(branch(node, c), static_cast<std::uint32_t>(ends_.size()));
    if (fresh) ends_.push_back(-1);
    node = entry->second;
  }
  auto& end = ends_[static_cast<std::size_t>(node)];
  if (end < 0) end = static_cast<std::int64_t>(number);
}

std::optional<AddedTokens::Found> AddedTokens::longest_at(std::string_view text, std::size_t at, unicode::MatchEffort& effort) const {
  std::optional<Found> found;
  std::int64_t node = 0;
  auto place = at;
  while (place < text.size()) {
    const auto entry = next_.find(branch(node, text[place]));
    if (entry == next_.end()) break;
    node = entry->second;
    ++place;
    if (const auto token = ends_[static_cast<std::size_t>(node)]; token >= 0)
      found = {at, place, &tokens_[static_cast<std::size_t>(token)]};
  }
  effort.spend(place - at);
  return found;
}

std::optional<AddedTokens::Found> AddedTokens::find(std::string_view text, std::size_t from, unicode::MatchEffort& effort) const {
  for (auto at = from; at < text.size(); ++at)
    if (begins_[static_cast<unsigned char>(text[at])])
      if (const auto found = longest_at(text, at, effort)) return found;
  return std::nullopt;
}

bool AddedTokens::stands_alone(std::string_view text, const Found& found, unicode::MatchEffort& effort) const {
  return !is_of_a_word(character_before(text, found.first), effort) && !is_of_a_word(character_at(text, found.last), effort);
}

/// Not over what the token before has taken.
void AddedTokens::strip(std::string_view text, std::size_t from, Found& found, unicode::MatchEffort& effort) const {
  if (found.token->lstrip) {
    auto first = found.first;
    for (auto before = character_before(text, first); is_white_space(before, effort); before = character_before(text, first))
      first -= before.size();
    found.first = std::max(first, from);
  }
  if (found.token->rstrip)
    for (auto after = character_at(text, found.last); is_white_space(after, effort); after = character_at(text, found.last))
      found.last += after.size();
}

void AddedTokens::split(std::string_view text, unicode::MatchEffort& effort, const Take& take) const {
  std::size_t done = 0, from = 0;
  while (!tokens_.empty()) {
    auto found = find(text, from, effort);
    if (!found) break;
    from = found->last;  // a token may begin in the white space that this one takes
    if (found->token->single_word && !stands_alone(text, *found, effort)) continue;
    strip(text, done, *found, effort);
    if (found->first > done) take(text.substr(done, found->first - done), std::nullopt);
    take({}, found->token->id);
    done = found->last;
  }
  if (done < text.size()) take(text.substr(done), std::nullopt);
}

}  // namespace flotilla::tokenizer
