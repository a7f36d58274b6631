#include <algorithm>
#include <map>
#include <optional>

#include "flotilla/base/hash.hpp"
#include "rendezvous.hpp"

namespace flotilla::comm {
namespace {

constexpr char phase_mark = 'S';
constexpr std::size_t digest_size = 1 + 16 + 16;  // mark, hash, length; then the beginning of the text
constexpr std::size_t shown = 60;                 // characters around the place where two texts part

std::string encode(std::string_view mine) {
  return text(phase_mark, hex(fnv1a(mine)), hex(mine.size()), mine.substr(0, longest_word - digest_size));
}

std::string digest(const std::string& word) { return word.substr(0, digest_size); }

/// The words said by most; of equally many, those said by the lowest rank.
std::string majority(const std::vector<std::string>& words) {
  std::map<std::string, int> count;
  for (const std::string& word : words) ++count[digest(word)];
  return *std::ranges::max_element(words, {}, [&](const std::string& word) { return count[digest(word)]; });
}

/// What stands at the first difference, from the beginning of its line.
std::string around(const std::string& value, std::size_t difference) {
  const std::size_t newline = difference == 0 ? std::string::npos : value.rfind('\n', difference - 1);
  const std::size_t line = newline == std::string::npos ? 0 : newline + 1;
  const std::size_t from = difference - line > shown / 2 ? difference - shown / 2 : line;
  return value.substr(from, std::min(value.find('\n', difference) - from, shown));
}

std::string where_they_part(const std::string& odd_word, const std::string& usual_word) {
  const std::string odd = odd_word.substr(digest_size);
  const std::string usual = usual_word.substr(digest_size);
  const auto [left, right] = std::ranges::mismatch(odd, usual);
  if (left == odd.end() && right == usual.end()) return text("they part after ", odd.size(), " bytes");
  const auto place = static_cast<std::size_t>(left - odd.begin());
  return text("\"", around(odd, place), "\" instead of \"", around(usual, place), "\"");
}

PhaseVerdict judge(const World& world, std::string_view name, const Gathered& gathered, Seconds deadline) {
  if (!gathered.missing.empty()) return {false, {false, ErrorKind::communication, no_answer(world, gathered.missing, deadline)}};
  for (const std::string& word : gathered.words)
    if (word.size() < digest_size || word[0] != phase_mark)
      return {true, {false, ErrorKind::internal, "the ranks are not in the same phase of the program"}};
  const std::string usual = majority(gathered.words);
  std::vector<Rank> odd;
  for (std::size_t r = 0; r < gathered.words.size(); ++r)
    if (digest(gathered.words[r]) != digest(usual)) odd.push_back(Rank{static_cast<int>(r)});
  if (odd.empty()) return {};
  return {true,
          {false, ErrorKind::bad_input,
           text("the ranks do not agree on ", name, ": ", world.names(odd), odd.size() == 1 ? " has " : " have ",
                where_they_part(gathered.words[odd.front().index()], usual), "; start every rank with the same files and options")}};
}

}  // namespace

void require_same(const World& world, std::string_view name, std::string_view mine, Seconds deadline) {
  enforce(rendezvous(
      world, encode(mine), [&](const Gathered& gathered) { return judge(world, name, gathered, deadline); }, deadline));
}

}  // namespace flotilla::comm
