#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/ingest/tokenize.hpp"

/// Text that training data names, tokenized once.
namespace flotilla::ingest {

struct CacheOptions {
  std::filesystem::path tokenizer;           ///< tokenizer.json or a SentencePiece .model
  std::string field = {};                    ///< as TokenizeOptions::field
  std::string eod;                           ///< the token that ends every document; empty: the tokenizer's own
  std::filesystem::path chat_template = {};  ///< as TokenizeOptions::chat_template
  std::filesystem::path folder;              ///< of the token files; empty: flotilla-tokens beside each input
  int threads = 0;                           ///< 0: as many as there are processors
  BadLines bad_lines = BadLines::refuse;
};

/// What happens while the cache is filled, called on the caller's thread.
struct CacheEvents {
  std::function<void(const std::filesystem::path& input)> begins;
  /// Another process writes this input's tokens; they are waited for.
  std::function<void(const std::filesystem::path& input)> waits;
  /// Between batches, and several times a second while another process is waited for; false stops.
  std::function<bool(const TokenizeProgress&)> go_on;
  std::function<void(const std::filesystem::path& input, const TokenizeReport&)> ends;
};

/// Whether a tokenizer has to turn it into tokens: JSON Lines by its name, compressed, or text by data::detect_format(). Throws as that.
bool is_text(const std::filesystem::path&);

/// For each input its token file: itself, unless it is text; else one of the cache, which is made where it is missing. An entry's name
/// ends in a hash of the tokenizer's bytes, of what is said of documents, and of the input's size, time of change and content (sampled as
/// data::file_digest() does). Processes that want the same entry at once make it once; one that was killed is gone on from. Nothing where
/// it was stopped. Local. Throws as tokenize() does.
std::optional<std::vector<std::filesystem::path>> cached_tokens(const CacheOptions&, const std::vector<std::filesystem::path>& inputs,
                                                                const CacheEvents&);

}  // namespace flotilla::ingest
