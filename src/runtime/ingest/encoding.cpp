#include "encoding.hpp"

#include <cstring>
#include <limits>

#include "flotilla/base/error.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/unicode/utf8.hpp"

namespace flotilla::ingest {
namespace {

/// JSON that is no UTF-8 is refused; what is no UTF-8 in a text file is replaced.
std::string text_of(const Item& item, const Encoding& how, Counts& counts) {
  if (item.json) return files::Json::parse(item.bytes, item.place).get_string(how.field);
  if (unicode::valid_prefix(item.bytes) == item.bytes.size()) return item.bytes;
  ++counts.repaired_sequences;
  return unicode::repaired(item.bytes);
}

void encode_text(const std::string& text, const Item& item, tokenizer::Encoder& encoder, std::vector<std::int32_t>& tokens) {
  try {
    encoder.encode(text, tokens);
  } catch (const Error& error) {
    throw Error{error.kind(), flotilla::text(item.place, ": ", error.what())};
  }
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
}

EncodedBatch encode(const Batch& batch, const Encoding& how, tokenizer::Encoder& encoder) {
  EncodedBatch out;
  out.after = batch.after;
  out.read_bytes = batch.read_bytes;
  std::vector<std::int32_t> tokens;
  for (const auto& item : batch.items) {
    const auto text = text_of(item, how, out.counts);
    tokens.clear();
    encode_text(text, item, encoder, tokens);
    out.counts.text_bytes += std::ssize(text);
    if (item.first && item.last && tokens.empty()) {
      ++out.counts.empty_documents;
      continue;
    }
    if (item.last && how.eod) tokens.push_back(*how.eod);
    FLOTILLA_REQUIRE(tokens.size() < static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()), ErrorKind::bad_input, item.place, ": ",
                     tokens.size(), " tokens; expected fewer than 2^31 - 1");
    how.token_bytes == 2 ? append<std::uint16_t>(tokens, out.tokens) : append<std::int32_t>(tokens, out.tokens);
    const auto length = static_cast<std::int32_t>(tokens.size());
    out.lengths.push_back(item.last ? ~length : length);
    out.counts.tokens += length;
    ++out.counts.sequences;
    out.counts.documents += item.last;
  }
  return out;
}

}  // namespace flotilla::ingest
