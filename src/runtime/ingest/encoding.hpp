#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/chat/chat_format.hpp"
#include "flotilla/data/loss_mask.hpp"
#include "flotilla/tokenizer/tokenizer.hpp"
#include "text_reader.hpp"

namespace flotilla::ingest {

/// Counts of what was encoded.
struct Counts {
  std::int64_t documents = 0, empty_documents = 0, sequences = 0, tokens = 0, text_bytes = 0, repaired_sequences = 0;
  std::int64_t uncounted = 0, uncounted_runs = 0;  ///< tokens that do not count in the loss; their runs
  BadLineCounts bad_lines = {};
  void add(const Counts&);
};

/// A batch, as it is written.
struct EncodedBatch {
  std::vector<std::byte> tokens;          ///< little-endian
  std::vector<std::int32_t> lengths;      ///< of sequences; ~length for the last one of a document
  std::vector<data::TokenRun> uncounted;  ///< tokens that do not count, from the batch's first
  Counts counts;
  std::size_t file = 0;  ///< that all of it is from
  ReadPosition after;
  std::int64_t read_bytes = 0;
};

/// How messages become a text.
struct Chat {
  std::optional<chat::ChatFormat> format;
  std::string missing;  ///< why there is none

  std::string identity() const { return format ? format->identity() : std::string{}; }
};

/// How documents become tokens.
struct Encoding {
  std::string field;  ///< of a JSON line; empty: as read_document() says
  std::optional<std::int32_t> eod;
  Chat chat;
  int token_bytes = 2;
  BadLines bad_lines = BadLines::refuse;
};

/// By the chat template that was named, else by the one beside a tokenizer.json; one there that is not understood matters to messages
/// alone. Throws as chat::ChatFormat does for one that was named, and where the tokenizer cannot read what templates write.
Chat chat_of(const std::filesystem::path& tokenizer, const std::filesystem::path& named);

/// Throws Error{bad_input} with the item's place. One encoder a thread.
EncodedBatch encode(const Batch&, const Encoding&, tokenizer::Encoder&);

}  // namespace flotilla::ingest
