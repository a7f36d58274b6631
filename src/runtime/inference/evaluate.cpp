#include "flotilla/inference/evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "flotilla/base/error.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/text_file.hpp"
#include "score.hpp"

namespace flotilla::inference {
namespace {

constexpr Bytes largest_text{1 << 30};

std::function<void(std::int64_t)> of_all(const TellProgress& progress, std::int64_t all) {
  if (!progress) return {};
  return [&progress, all](std::int64_t done) { progress(done, all); };
}

std::int64_t sequences_of(const Text& text, int length) { return (text.size() - 1 + length - 1) / length; }

struct Windows {
  std::int64_t first = 0;  ///< number of the first one among all texts'
  std::int64_t count = 0;
};

/// Texts cut into sequences of a pass's length, each of which begins with the last token of the one before.
class TextPassages {
 public:
  TextPassages(const std::vector<Text>& texts, int length, int vocabulary) : texts_{texts}, length_{length}, vocabulary_{vocabulary} {
    for (const Text& text : texts) {
      windows_.push_back({total_, sequences_of(text, length)});
      total_ += windows_.back().count;
    }
  }

  std::int64_t total() const { return total_; }
  std::size_t text_of(std::int64_t passage) const {
    const auto after = std::ranges::upper_bound(windows_, passage, {}, &Windows::first);
    return static_cast<std::size_t>(after - windows_.begin()) - 1;
  }
  std::int64_t first_token(std::int64_t passage) const { return (passage - windows_[text_of(passage)].first) * length_; }
  model::UnitRange targets(std::int64_t passage) const {
    return {0, std::min<std::int64_t>(length_, texts_[text_of(passage)].size() - 1 - first_token(passage))};
  }
  void read(std::int64_t passage, std::span<std::int32_t> tokens) const {
    const auto count = static_cast<std::size_t>(targets(passage).count() + 1);
    texts_[text_of(passage)].read(first_token(passage), tokens.first(count), vocabulary_);
    std::ranges::fill(tokens.subspan(count), 0);
  }
  void documents(std::int64_t passage, std::span<std::int32_t> starts, std::optional<std::int32_t> end) const {
    const auto count = static_cast<std::size_t>(targets(passage).count());
    texts_[text_of(passage)].document_starts(first_token(passage), starts.first(count), end);
    std::ranges::fill(starts.subspan(count), 0);
  }

 private:
  const std::vector<Text>& texts_;
  const int length_, vocabulary_;
  std::vector<Windows> windows_;
  std::int64_t total_ = 0;
};

/// Bytes of all tokens that count but the first.
std::int64_t bytes_behind_first(const Text& text, const Codec& codec, int vocabulary) {
  constexpr std::int64_t block = 1 << 16;
  std::vector<std::int32_t> tokens;
  std::int64_t bytes = 0;
  for (std::int64_t first = 1; first < text.size(); first += block) {
    tokens.resize(static_cast<std::size_t>(std::min(block, text.size() - first)));
    text.read(first, tokens, vocabulary);
    for (const auto token : tokens)
      if (token >= 0) bytes += std::ssize(codec.bytes_of(token));
  }
  return bytes;
}

TextScore together(const std::vector<TextScore>& scores) {
  TextScore all{"all", 0, 0, 0};
  for (const auto& score : scores) {
    all.tokens += score.tokens;
    all.log_probability += score.log_probability;
    all.bytes = all.bytes && score.bytes ? std::optional{*all.bytes + *score.bytes} : std::nullopt;
  }
  return all;
}

/// A context's last tokens and its continuation, in a sequence each.
class ContinuationPassages {
 public:
  ContinuationPassages(const std::vector<Continuation>& list, int length) : list_{list}, length_{length} {}

  model::UnitRange targets(std::int64_t passage) const {
    const auto& one = at(passage);
    const auto first = std::ssize(one.context) - left_out(one) - 1;
    return {first, first + std::ssize(one.continuation)};
  }
  void read(std::int64_t passage, std::span<std::int32_t> tokens) const {
    const auto& one = at(passage);
    auto end = std::copy(one.context.begin() + left_out(one), one.context.end(), tokens.begin());
    end = std::ranges::copy(one.continuation, end).out;
    std::fill(end, tokens.end(), 0);
  }

 private:
  const Continuation& at(std::int64_t passage) const { return list_[static_cast<std::size_t>(passage)]; }
  /// Tokens of the context that the sequence has no room for.
  std::int64_t left_out(const Continuation& one) const {
    return std::max<std::int64_t>(0, std::ssize(one.context) + std::ssize(one.continuation) - (length_ + 1));
  }

  const std::vector<Continuation>& list_;
  const int length_;
};

std::vector<std::int32_t> token_list(const files::Json& list, int vocabulary) {
  std::vector<std::int32_t> tokens;
  for (const auto& item : list.items()) tokens.push_back(item.as_int(0, vocabulary - 1));
  return tokens;
}

constexpr std::string_view white_space = " \t\n\v\f\r";

Continuation from_text(std::string context, std::string continuation, Codec& codec) {
  const auto end = context.find_last_not_of(white_space);
  const auto kept = end == context.npos ? 0 : end + 1;
  continuation.insert(0, context, kept, context.npos);
  context.resize(kept);
  Continuation one{codec.encode(context), codec.encode(context + continuation)};
  const auto shared = static_cast<std::ptrdiff_t>(std::min(one.context.size(), one.continuation.size()));
  one.continuation.erase(one.continuation.begin(), one.continuation.begin() + shared);
  return one;
}

Continuation read_continuation(const files::Json& line, Codec& codec, int vocabulary) {
  auto one = line.has("context_tokens")
                 ? Continuation{token_list(line.at("context_tokens"), vocabulary), token_list(line.at("continuation_tokens"), vocabulary)}
                 : from_text(line.get_string("context"), line.get_string("continuation"), codec);
  if (one.continuation.empty()) line.refuse("the continuation has no token");
  if (!one.context.empty()) return one;
  const auto end = codec.end_of_document();
  if (!end) line.refuse("an empty context stands for the token that ends documents, and the tokenizer has none: give at least one token");
  one.context.push_back(*end);
  return one;
}

}  // namespace

Text Text::open(const std::filesystem::path& path, data::Format format, Codec& codec) {
  Text text;
  text.name_ = path.string();
  FLOTILLA_REQUIRE(format != data::Format::automatic || !data::is_named_json(path), ErrorKind::bad_input, text.name_,
                   ": holds JSON; make tokens of its texts and evaluate those: flotilla tokenize --tokenizer TOKENIZER.json ", text.name_,
                   " -o TOKENS, then --data TOKENS.bin; or evaluate the bytes as they are: --evaluate.format text");
  if (format == data::Format::automatic) format = data::detect_format(path);
  if (format == data::Format::text && codec.has_tokenizer())
    text.tokens_ = codec.encode(files::read_text(path, largest_text));
  else
    text.file_ = data::TokenFile::open(path, format);
  FLOTILLA_REQUIRE(text.size() > 1, ErrorKind::bad_input, text.name_, ": ", text.size(),
                   " tokens; expected two or more: the first is what the second is predicted from");
  FLOTILLA_REQUIRE(text.counted() > 0, ErrorKind::bad_input, text.name_, ": none of ", text.size(),
                   " tokens counts in the loss: expected a file with answers");
  return text;
}

std::int64_t Text::size() const { return file_ ? file_->size() : std::ssize(tokens_); }

std::int64_t Text::counted() const { return file_ && file_->mask() != nullptr ? file_->mask()->count(1, size()) : size() - 1; }

void Text::read(std::int64_t first, std::span<std::int32_t> tokens, int vocabulary) const {
  if (!file_) {
    std::copy_n(tokens_.begin() + first, tokens.size(), tokens.begin());
    return;
  }
  file_->read(first, tokens, vocabulary);
  if (file_->mask() != nullptr) file_->mask()->mark(first, tokens);
}

void Text::document_starts(std::int64_t first, std::span<std::int32_t> starts, std::optional<std::int32_t> end) const {
  if (file_) return file_->document_starts(first, starts, end);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const bool begins = i > 0 && end && tokens_[static_cast<std::size_t>(first) + i - 1] == *end;
    starts[i] = begins ? static_cast<std::int32_t>(i) : i > 0 ? starts[i - 1] : 0;
  }
}

double TextScore::perplexity() const { return std::exp(loss()); }
std::optional<double> TextScore::bits_per_byte() const {
  if (!bytes || *bytes == 0) return std::nullopt;
  return -log_probability / std::numbers::ln2 / static_cast<double>(*bytes);
}
std::optional<double> TextScore::byte_perplexity() const {
  const auto bits = bits_per_byte();
  return bits ? std::optional{std::exp2(*bits)} : std::nullopt;
}

std::int64_t sequences_of(const std::vector<Text>& texts, int length) {
  std::int64_t all = 0;
  for (const Text& text : texts) all += sequences_of(text, length);
  return all;
}

std::vector<TextScore> evaluate(LoadedModel& model, const std::vector<Text>& texts, const Codec& codec, const TellProgress& progress,
                                std::optional<std::int32_t> document_end) {
  const int vocabulary = model.model().vocabulary;
  const TextPassages passages{texts, model.plan().length, vocabulary};
  const auto scores = score(model,
                            {passages.total(), [&](std::int64_t p, std::span<std::int32_t> tokens) { passages.read(p, tokens); },
                             [&](std::int64_t p) { return passages.targets(p); },
                             [&](std::int64_t p, std::span<std::int32_t> starts) { passages.documents(p, starts, document_end); }},
                            of_all(progress, passages.total()));
  std::vector<TextScore> all;
  for (const Text& text : texts) {
    all.push_back({text.name(), text.counted(), std::nullopt, 0});
    if (codec.has_tokenizer() || text.is_bytes()) all.back().bytes = bytes_behind_first(text, codec, vocabulary);
  }
  for (std::int64_t p = 0; p < passages.total(); ++p)
    all[passages.text_of(p)].log_probability += scores[static_cast<std::size_t>(p)].log_probability;
  if (all.size() > 1) all.push_back(together(all));
  return all;
}

std::vector<Continuation> read_continuations(const std::filesystem::path& path, Codec& codec, int vocabulary) {
  const auto content = files::read_text(path);
  std::vector<Continuation> list;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < content.size();) {
    const auto end = std::min(content.find('\n', begin), content.size());
    const auto line = std::string_view{content}.substr(begin, end - begin);
    ++number;
    begin = end + 1;
    if (line.find_first_not_of(white_space) == line.npos) continue;
    list.push_back(read_continuation(files::Json::parse(line, text(path.string(), ":", number)), codec, vocabulary));
  }
  FLOTILLA_REQUIRE(!list.empty(), ErrorKind::bad_input, path.string(),
                   ": no line; expected {\"context\": ..., \"continuation\": ...} on each");
  return list;
}

int length_for(const std::vector<Continuation>& list, int most) {
  std::ptrdiff_t longest = 1;
  for (const auto& one : list) {
    FLOTILLA_REQUIRE(std::ssize(one.continuation) <= most, ErrorKind::bad_input, "a continuation of ", one.continuation.size(),
                     " tokens; a sequence holds ", most);
    longest = std::max(longest, std::ssize(one.context) + std::ssize(one.continuation) - 1);
  }
  return static_cast<int>(std::min<std::ptrdiff_t>(longest, most));
}

std::vector<ContinuationScore> evaluate(LoadedModel& model, const std::vector<Continuation>& list, const TellProgress& progress) {
  const ContinuationPassages passages{list, model.plan().length};
  const auto scores = score(model,
                            {std::ssize(list), [&](std::int64_t p, std::span<std::int32_t> tokens) { passages.read(p, tokens); },
                             [&](std::int64_t p) { return passages.targets(p); }},
                            of_all(progress, std::ssize(list)));
  std::vector<ContinuationScore> all;
  for (std::size_t i = 0; i < list.size(); ++i)
    all.push_back({scores[i].log_probability, scores[i].all_most_likely, std::ssize(list[i].continuation)});
  return all;
}

}  // namespace flotilla::inference
