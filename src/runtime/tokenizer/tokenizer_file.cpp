// tokenizer.json: what is understood, and a line for what is not.
#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/files/look.hpp"
#include "hugging_face.hpp"

namespace flotilla::tokenizer {
namespace {

using files::Json;

constexpr std::int64_t largest_token = std::numeric_limits<std::int32_t>::max() - 1;

void require_null_or_empty(const Json& model, const char* key) {
  if (!model.has(key) || model.at(key).is_null()) return;
  if (!model.get_string(key).empty()) model.at(key).refuse("is not supported; expected null");
}

bool flag(const Json& object, const char* key) { return object.has(key) && !object.at(key).is_null() && object.get_bool(key); }

Vocabulary vocabulary_of(const Json& object) {
  Vocabulary vocabulary;
  for (const auto& token : object.keys()) vocabulary.emplace(token, static_cast<std::int32_t>(object.at(token).as_int64(0, largest_token)));
  if (vocabulary.empty()) object.refuse("expected at least one token");
  return vocabulary;
}

/// "left right", or the two in a list.
std::array<std::string, 2> pair_of(const Json& merge) {
  if (merge.is_array()) {
    const auto both = merge.items();
    if (both.size() != 2) merge.refuse("expected two tokens");
    return {both[0].as_string(), both[1].as_string()};
  }
  const auto both = merge.as_string();
  const auto space = both.find(' ');
  if (space == both.npos || both.find(' ', space + 1) != both.npos)
    merge.refuse("expected two tokens with a space between them, got " + in_quotes(both));
  return {both.substr(0, space), both.substr(space + 1)};
}

std::int32_t token_in(const Vocabulary& vocabulary, const std::string& token, const Json& where) {
  const auto found = vocabulary.find(token);
  if (found == vocabulary.end()) where.refuse(text("the token ", in_quotes(token), " is not in the vocabulary"));
  return found->second;
}

MergeTable merges_of(const Json& list, const Vocabulary& vocabulary) {
  const auto merges = list.items();
  MergeTable table{merges.size()};
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& where = merges[rank];
    const auto [left, right] = pair_of(where);
    if (left.empty() || right.empty()) where.refuse("an empty token");
    const auto left_token = token_in(vocabulary, left, where), right_token = token_in(vocabulary, right, where);
    table.set(left_token, right_token, {static_cast<std::uint32_t>(rank), token_in(vocabulary, left + right, where)});
  }
  return table;
}

Bpe model_of(const Json& model, Alphabet alphabet) {
  if (model.has("type") && model.get_string("type") != "BPE") {
    const auto type = model.get_string("type");
    model.at("type").refuse(in_quotes(type) + " is not supported; expected BPE" +
                            (type == "Unigram" ? " (or give SentencePiece's .model)" : ""));
  }
  model.expect_keys({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback",
                     "ignore_merges", "vocab", "merges"});
  if (model.has("dropout") && !model.at("dropout").is_null() && model.get_double("dropout") != 0)
    model.at("dropout").refuse("is not supported; expected null: the same text gives the same tokens");
  require_null_or_empty(model, "continuing_subword_prefix");
  require_null_or_empty(model, "end_of_word_suffix");
  auto vocabulary = vocabulary_of(model.at("vocab"));
  auto merges = merges_of(model.at("merges"), vocabulary);
  BpeOptions options{alphabet, {}, flag(model, "fuse_unk"), flag(model, "byte_fallback"), flag(model, "ignore_merges")};
  if (model.has("unk_token") && !model.at("unk_token").is_null())
    options.unknown = token_in(vocabulary, model.get_string("unk_token"), model.at("unk_token"));
  return {std::move(vocabulary), std::move(merges), options};
}

AddedToken added_token(const Json& object) {
  object.expect_keys({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  return {object.get_string("content"),   static_cast<std::int32_t>(object.at("id").as_int64(0, largest_token)),
          object.get_bool("single_word"), object.get_bool("lstrip"),
          object.get_bool("rstrip"),      object.get_bool("normalized"),
          object.get_bool("special")};
}

/// In the library's order of precedence: special ones first. A number that is not its own would mean another token to the model.
std::vector<AddedToken> added_tokens_of(const Json& list, const Vocabulary& vocabulary) {
  std::set<std::int32_t> used;
  for (const auto& [token, id] : vocabulary) used.insert(id);
  std::vector<AddedToken> tokens;
  std::set<std::string> contents;
  for (const auto& object : list.items()) {
    auto token = added_token(object);
    if (!contents.insert(token.content).second) object.at("content").refuse(in_quotes(token.content) + " is added twice");
    const auto known = vocabulary.find(token.content);
    const bool right = known != vocabulary.end() ? known->second == token.id : used.insert(token.id).second;
    if (!right) object.at("id").refuse(text(token.id, " is the number of another token, or not that of this one in the vocabulary"));
    tokens.push_back(std::move(token));
  }
  std::ranges::stable_partition(tokens, &AddedToken::special);
  return tokens;
}

/// What is added around a text, such as a token at its beginning; it is known, and left out.
void check_post_processor(const Json& document) {
  if (!document.has("post_processor") || document.at("post_processor").is_null()) return;
  const auto type = document.at("post_processor").at("type");
  constexpr std::array<std::string_view, 5> known{"ByteLevel", "TemplateProcessing", "Sequence", "BertProcessing", "RobertaProcessing"};
  if (std::ranges::find(known, type.as_string()) == known.end()) type.refuse(in_quotes(type.as_string()) + " is not known");
}

/// tokenizer_config.json's eos_token: a string, or an added token.
std::string named_end(const std::filesystem::path& file) {
  if (!files::facts_of(file)) return {};
  const auto config = Json::read(file);
  if (!config.has("eos_token") || config.at("eos_token").is_null()) return {};
  const auto token = config.at("eos_token");
  return token.is_string() ? token.as_string() : token.get_string("content");
}

std::optional<std::int32_t> end_of_document(const std::filesystem::path& path, const std::vector<AddedToken>& tokens) {
  const auto of = [&](std::string_view content) -> std::optional<std::int32_t> {
    const auto found = std::ranges::find(tokens, content, &AddedToken::content);
    return found == tokens.end() ? std::nullopt : std::optional{found->id};
  };
  if (const auto named = of(named_end(path.parent_path() / "tokenizer_config.json"))) return named;
  for (const char* usual : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"})
    if (const auto found = of(usual)) return found;
  return std::nullopt;
}

Vocabulary by_content(const std::vector<AddedToken>& tokens, bool special_only) {
  Vocabulary added;
  for (const auto& token : tokens)
    if (token.special || !special_only) added.emplace(token.content, token.id);
  return added;
}

/// Tokens that are looked for in the text as it is, or in the normalized one, as it would be normalized itself.
AddedTokens tokens_in(const std::vector<AddedToken>& tokens, bool normalized, const Normalizer& normalizer) {
  std::vector<AddedToken> some;
  for (auto token : tokens) {
    if (token.normalized != normalized) continue;
    unicode::MatchEffort effort{token.content.size()};
    if (normalized) token.content = normalizer.run(token.content, effort);
    some.push_back(std::move(token));
  }
  return AddedTokens{std::move(some)};
}

Json part(const Json& document, const char* key) { return document.has(key) ? document.at(key) : Json::parse("null", document.source()); }

}  // namespace

std::unique_ptr<const Tokenizer> read_hugging_face(const std::filesystem::path& path) {
  const auto document = Json::read(path);
  document.expect_keys(
      {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model"});
  check_post_processor(document);
  const Normalizer normalizer{part(document, "normalizer")};
  PreTokenizer pre_tokenizer{part(document, "pre_tokenizer")};
  auto model = model_of(document.at("model"), pre_tokenizer.alphabet());
  const auto added =
      document.has("added_tokens") ? added_tokens_of(document.at("added_tokens"), model.vocabulary()) : std::vector<AddedToken>{};
  return std::make_unique<HuggingFaceTokenizer>(HuggingFaceTokenizer::Parts{
      tokens_in(added, false, normalizer), tokens_in(added, true, normalizer), normalizer, std::move(pre_tokenizer), std::move(model),
      by_content(added, false), by_content(added, true), end_of_document(path, added)});
}

}  // namespace flotilla::tokenizer
