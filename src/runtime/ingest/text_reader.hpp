#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/compression/input_stream.hpp"
#include "flotilla/ingest/tokenize.hpp"

namespace flotilla::ingest {

/// Where reading goes on.
struct ReadPosition {
  std::size_t file = 0;
  std::int64_t offset = 0;  ///< bytes of the text, decompressed
  std::int64_t line = 0;    ///< lines before
};

/// A document, or a part of a long text file.
struct DocumentPart {
  std::string bytes;
  std::string place;               ///< "corpus.jsonl:12" or the file, for messages
  bool json = false;               ///< a JSON line that holds the document
  bool first = true, last = true;  ///< part of its document
};

/// What one thread takes at a time.
struct Batch {
  std::vector<DocumentPart> items;
  std::size_t file = 0;         ///< that all items are from
  ReadPosition after;           ///< behind the last item
  std::int64_t read_bytes = 0;  ///< of all files up to there, as they lie on the disk
};

/// Whether the name, without .gz or .zst, says that a line is a JSON object.
bool is_json_lines(const std::filesystem::path&);

/// Cuts text files into documents, front to back. Files longer than `part_bytes` are cut behind a line's end, else between characters.
class TextReader {
 public:
  static constexpr std::size_t part_bytes = 4 << 20;
  static constexpr std::size_t longest_line = 64 << 20;
  static constexpr std::size_t batch_bytes = 1 << 20;

  TextReader(std::vector<std::filesystem::path> files, TextFormat format, ReadPosition from);

  /// None at the end. Throws Error{bad_input, unavailable, temporary} with the file.
  std::optional<Batch> next();

 private:
  bool is_jsonl() const;
  bool open_next();
  std::optional<DocumentPart> next_item();
  std::optional<DocumentPart> next_line();
  std::optional<DocumentPart> next_part();
  void fill(std::size_t bytes);
  std::string take(std::size_t bytes);

  std::vector<std::filesystem::path> files_;
  TextFormat format_;
  ReadPosition at_;
  std::optional<compression::InputStream> stream_;
  std::string ahead_;  ///< read, not yet taken, from `taken_` on
  std::size_t taken_ = 0;
  bool ended_ = false;       ///< nothing of the file is left behind `ahead_`
  std::int64_t before_ = 0;  ///< bytes of the files before this one
};

}  // namespace flotilla::ingest
