#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/tokenizer/tokenizer.hpp"
#include "text_reader.hpp"

namespace flotilla::ingest {

/// Counts of what was encoded.
struct Counts {
  std::int64_t documents = 0, empty_documents = 0, sequences = 0, tokens = 0, text_bytes = 0, repaired_sequences = 0;
  void add(const Counts&);
};

/// A batch, as it is written.
struct EncodedBatch {
  std::vector<std::byte> tokens;      ///< little-endian
  std::vector<std::int32_t> lengths;  ///< of sequences; ~length for the last one of a document
  Counts counts;
  Position after;
  std::int64_t read_bytes = 0;
};

/// How documents become tokens.
struct Encoding {
  std::string field;
  std::optional<std::int32_t> eod;
  int token_bytes = 2;
};

/// Throws Error{bad_input} with the item's place. One encoder a thread.
EncodedBatch encode(const Batch&, const Encoding&, tokenizer::Encoder&);

}  // namespace flotilla::ingest
