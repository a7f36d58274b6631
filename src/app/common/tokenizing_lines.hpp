#pragma once
#include "app/common/live_line.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/ingest/token_cache.hpp"

namespace flotilla::app {

/// How far tokenizing is, on standard error: on a terminal a line that changes a few times a second.
class TokenizingLine {
 public:
  TokenizingLine();
  void show(const ingest::TokenizeProgress&);
  /// "1.2 GB of 3.4 GB, 12 MB/s, 34000 documents, 345000000 tokens"
  std::string words(const ingest::TokenizeProgress&) const;

 private:
  LiveLine line_;
  Seconds start_, next_;
  std::int64_t first_bytes_ = -1;
};

/// The same for the files of a job, which are tokenized before it starts, with lines for a log: when a file begins, every half a minute,
/// when it ends.
class TokenizingLines {
 public:
  explicit TokenizingLines(std::string tokenizer) : tokenizer_{std::move(tokenizer)} {}
  /// Refers to this object.
  ingest::CacheEvents events();

 private:
  void begin(const std::filesystem::path&);
  void show(const ingest::TokenizeProgress&);
  void end(const std::filesystem::path&, const ingest::TokenizeReport&);
  const std::string tokenizer_;
  std::optional<TokenizingLine> line_;
  Seconds since_, next_line_;
};

}  // namespace flotilla::app
