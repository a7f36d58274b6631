#include "encoding.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "bad_lines.hpp"
#include "document.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/unicode/utf8.hpp"

namespace flotilla::ingest {
namespace {

/// None for a JSON line that is left out. What is no UTF-8 in a text file is replaced.
std::optional<Document> document_of(const DocumentPart& item, const Encoding& how, Counts& counts) {
  if (item.json) return document_of_line(item, how, counts);
  if (unicode::valid_prefix(item.bytes) == item.bytes.size()) return whole_document(item.bytes);
  ++counts.repaired_sequences;
  return whole_document(unicode::repaired(item.bytes));
}

void encode_text(std::string_view text, const DocumentPart& item, tokenizer::Encoder& encoder, std::vector<std::int32_t>& tokens) {
  try {
    encoder.encode(text, tokens);
  } catch (const Error& error) {
    throw Error{error.kind(), flotilla::text(item.place, ": ", error.what())};
  }
}

/// How many tokens of a text are those of its first `bytes` bytes alone: a token across that place belongs to what follows.
std::int64_t tokens_before(std::size_t bytes, const Document& document, const DocumentPart& item, std::span<const std::int32_t> tokens,
                           tokenizer::Encoder& encoder) {
  if (bytes == 0) return 0;
  if (bytes == document.text.size()) return std::ssize(tokens);
  std::vector<std::int32_t> before;
  encode_text(std::string_view{document.text}.substr(0, bytes), item, encoder, before);
  return std::ranges::mismatch(before, tokens).in1 - before.begin();
}

/// Tokens between the counted spans, as runs of the batch, whose tokens so far are `first`; a run may go on from one document to the next.
void add_uncounted(const Document& document, const DocumentPart& item, const std::vector<std::int32_t>& tokens, std::int64_t text_tokens,
                   std::int64_t first, tokenizer::Encoder& encoder, EncodedBatch& out) {
  const auto add = [&](std::int64_t from, std::int64_t to) {
    if (from >= to) return;
    out.counts.uncounted += to - from;
    if (!out.uncounted.empty() && out.uncounted.back().last == first + from)
      out.uncounted.back().last = first + to;
    else
      out.uncounted.push_back({first + from, first + to});
  };
  const auto text = std::span{tokens}.first(static_cast<std::size_t>(text_tokens));
  std::int64_t at = 0;
  for (const auto& span : document.counted) {
    add(at, tokens_before(span.first, document, item, text, encoder));
    at = tokens_before(span.last, document, item, text, encoder);
  }
  add(at, document.end_counts ? text_tokens : std::ssize(tokens));
}

template <class T>
void append(const std::vector<std::int32_t>& tokens, std::vector<std::byte>& bytes) {
  const auto there = bytes.size();
  bytes.resize(there + tokens.size() * sizeof(T));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto token = static_cast<T>(tokens[i]);
    std::memcpy(bytes.data() + there + i * sizeof(T), &token, sizeof(T));
  }
}

}  // namespace

void Counts::add(const Counts& other) {
  documents += other.documents;
  empty_documents += other.empty_documents;
  sequences += other.sequences;
  tokens += other.tokens;
  text_bytes += other.text_bytes;
  repaired_sequences += other.repaired_sequences;
  uncounted += other.uncounted;
  uncounted_runs += other.uncounted_runs;
  bad_lines.add(other.bad_lines);
}

EncodedBatch encode(const Batch& batch, const Encoding& how, tokenizer::Encoder& encoder) {
  EncodedBatch out;
  out.file = batch.file;
  out.after = batch.after;
  out.read_bytes = batch.read_bytes;
  std::vector<std::int32_t> tokens;
  for (const auto& item : batch.items) {
    Counts of_item;
    const auto found = document_of(item, how, of_item);
    out.counts.add(of_item);
    if (!found) continue;
    const auto& document = *found;
    tokens.clear();
    encode_text(document.text, item, encoder, tokens);
    out.counts.text_bytes += std::ssize(document.text);
    if (item.first && item.last && tokens.empty()) {
      ++out.counts.empty_documents;
      continue;
    }
    const auto text_tokens = std::ssize(tokens);
    const bool ended = document.ends_itself && !tokens.empty() && tokens.back() == how.eod;
    if (item.last && how.eod && !ended) tokens.push_back(*how.eod);
    FLOTILLA_REQUIRE(tokens.size() < static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()), ErrorKind::bad_input, item.place,
                     ": ", tokens.size(), " tokens; expected fewer than 2^31 - 1");
    add_uncounted(document, item, tokens, text_tokens, out.counts.tokens, encoder, out);
    how.token_bytes == 2 ? append<std::uint16_t>(tokens, out.tokens) : append<std::int32_t>(tokens, out.tokens);
    const auto length = static_cast<std::int32_t>(tokens.size());
    out.lengths.push_back(item.last ? ~length : length);
    out.counts.tokens += length;
    ++out.counts.sequences;
    out.counts.documents += item.last;
  }
  out.counts.uncounted_runs = std::ssize(out.uncounted);
  return out;
}

}  // namespace flotilla::ingest
