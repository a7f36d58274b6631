#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "flotilla/base/error.hpp"

/// Text files in, token files out.
namespace flotilla::ingest {

enum class TextFormat {
  automatic,  ///< by the name: .jsonl, .ndjson and .json are JSON Lines
  jsonl,      ///< a document is a JSON object on a line
  text,       ///< a document is a file
};

/// What becomes of a JSON line that holds no document.
enum class BadLines {
  refuse,
  skip,    ///< it is left out
  repair,  ///< lone surrogates and bytes that are no UTF-8 become U+FFFD, NaN and infinities null, a null text an empty one
};
/// "refuse", "skip", "repair", in the order of the enumeration.
const std::vector<std::string>& bad_lines_names();

/// Those that were met and left out or repaired.
struct BadLineCounts {
  static constexpr std::size_t most_places = 10;
  std::map<std::string, std::int64_t> by_reason;  ///< "lone surrogate", "not UTF-8", "NaN", "null text", "not JSON", "no document"
  std::vector<std::string> places;                ///< of the first ones: file, line and what was wrong
  std::int64_t total() const;
  void add(const BadLineCounts&);
  /// "3 bad lines (2 lone surrogate, 1 NaN)"; empty without any.
  std::string in_words() const;
};

struct TokenizeOptions {
  std::filesystem::path tokenizer;            ///< tokenizer.json or a SentencePiece .model
  std::vector<std::filesystem::path> inputs;  ///< in this order; gzip and zstd are decompressed
  std::filesystem::path output;               ///< OUT of OUT.bin, OUT.idx, and OUT.mask where some tokens do not count in the loss
  TextFormat format = TextFormat::automatic;
  std::string field = {};  ///< of a JSON line: a text or messages; empty: text, or else messages, or else prompt and completion
  std::filesystem::path chat_template = {};  ///< tokenizer_config.json or a .jinja file; empty: beside the tokenizer, where there is one
  bool append_eod = false;                   ///< a token at the end of every document
  std::string eod;                           ///< that token; empty: the tokenizer's own
  int threads = 0;                           ///< 0: as many as there are processors
  BadLines bad_lines = BadLines::refuse;
  std::string content = {};  ///< stands for what the inputs hold, by which a begun output is known; empty: their names, sizes and times
};

/// Another process is writing the output.
class OutputBusy : public Error {
 public:
  using Error::Error;
};

/// How far it is.
struct TokenizeProgress {
  std::int64_t read_bytes = 0, input_bytes = 0;  ///< of the files as they lie on the disk
  std::int64_t documents = 0, tokens = 0;
};

struct TokenizeReport {
  bool finished = false;  ///< else it was stopped, and the same call goes on from there
  std::int64_t documents = 0, empty_documents = 0, sequences = 0, tokens = 0;
  std::int64_t text_bytes = 0;          ///< UTF-8 that was encoded
  std::int64_t uncounted_tokens = 0;    ///< that do not count in the loss
  std::int64_t repaired_sequences = 0;  ///< of text files with bytes that are no UTF-8
  BadLineCounts bad_lines = {};
  int vocabulary = 0, token_bytes = 0;
};

/// Tokenizes all inputs into one Megatron pair, on several threads, in memory that depends on the longest document and the threads only.
/// The same inputs give the same bytes, whatever the threads. What is done is committed every few seconds in OUT.partial; the pair appears
/// when it is whole. `go_on` is called between batches, on the caller's thread; false stops. Local.
/// Throws Error{bad_input} with file and line for what is damaged, for outputs that exist, and for an OUT.partial of other inputs;
/// OutputBusy; Error{unavailable, temporary} where files cannot be read or written. OUT.partial stays where the same call can go on from
/// it, and the message then says so: files that are done stay done when a later one is mended.
TokenizeReport tokenize(const TokenizeOptions&, const std::function<bool(const TokenizeProgress&)>& go_on);

}  // namespace flotilla::ingest
