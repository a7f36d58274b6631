#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "flotilla/data/token_file.hpp"

namespace flotilla::data {

/// A contiguous run of one file's tokens. No sequence crosses its ends.
struct CorpusSection {
  std::shared_ptr<const TokenFile> file;
  std::int64_t first = 0, last = 0;  ///< tokens, half-open
  std::int64_t size() const { return last - first; }
};

/// What one half of the data (training or validation) consists of, in the order the files were given.
class Corpus {
 public:
  Corpus() = default;
  explicit Corpus(std::vector<CorpusSection> sections) : sections_{std::move(sections)} {}

  const std::vector<CorpusSection>& sections() const { return sections_; }
  bool empty() const { return sections_.empty(); }
  std::int64_t tokens() const;

  /// 64 bits over every section: its file's fingerprint and its range. Not over names, so moved data is the same data. Resume refuses
  /// another one. Reads up to 64 MiB a file: compute it once and share it (any rank that sees the same files gets the same value).
  std::uint64_t fingerprint() const { return fingerprint(file_fingerprints()); }
  /// Of every section's file, in order: what takes the time.
  std::vector<std::uint64_t> file_fingerprints() const;
  /// The same from those.
  std::uint64_t fingerprint(std::span<const std::uint64_t> files) const;
  /// Of one section alone: its file's and its range.
  static std::uint64_t fingerprint(const CorpusSection&, std::uint64_t file);

  /// Reads every token of every section. Throws Error{bad_input} with file and byte offset.
  void scan(int vocabulary) const;

 private:
  std::vector<CorpusSection> sections_;
};

struct CorpusOptions {
  std::vector<std::filesystem::path> training;
  std::vector<std::filesystem::path> validation;  ///< own files; where there are some, `validation_fraction` is not used
  Format format = Format::automatic;              ///< of all files
  double validation_fraction = 0.05;              ///< in [0, 1): this much of every training file's tokens, at its end
};

struct Corpora {
  Corpus training;
  Corpus validation;  ///< empty when neither files nor a fraction are given
};

/// Opens all files. The tail of every file is its validation section: floor(size * fraction) tokens.
/// Throws Error{bad_input, no_input}: no file, a file that is unreadable or broken, a fraction outside [0, 1).
Corpora open_corpora(const CorpusOptions&);

}  // namespace flotilla::data
