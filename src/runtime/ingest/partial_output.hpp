#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "encoding.hpp"
#include "flotilla/base/descriptor.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/ingest/tokenize.hpp"
#include "flotilla/store/plain_file.hpp"

namespace flotilla::ingest {

/// How far an output is: what is committed.
struct Committed {
  ReadPosition position;
  Counts counts;
  std::size_t file = 0;  ///< that the last batch was from
  Counts before_file;    ///< when that one began
};

/// What an output is made of.
struct OutputIdentity {
  std::string options;              ///< tokenizer, and what is said of documents
  std::vector<std::string> inputs;  ///< of each input, what it holds
  BadLines bad_lines = BadLines::refuse;
};

/// OUT.partial: tokens, lengths of sequences, runs of tokens that do not count, and what of them is committed. One process at a time holds
/// it.
class PartialOutput {
 public:
  /// Makes it, or goes on with one of the same options whose inputs so far are the same; with the one in hand from its begin, where that
  /// has changed. Throws Error{bad_input} for one of others, and for outputs that exist; OutputBusy where another process holds it.
  PartialOutput(const std::filesystem::path& output, OutputIdentity identity, int token_bytes);

  const Committed& committed() const { return committed_; }
  /// A process that wrote it whole was ended between the two renames: nothing is missing but publish().
  bool complete() const { return complete_; }
  void append(const EncodedBatch&);
  /// Everything appended is on the disk, and will be gone on from.
  void commit();
  /// Writes the index and, where some tokens do not count, their mask, and renames all files into place.
  void publish();
  /// Nothing can go on from it: its folder is removed.
  void discard();
  /// Whether anything was appended, now or by earlier processes.
  bool begun() const { return latest_.counts.sequences > 0; }
  /// Whether anything was committed.
  bool resumable() const;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  void lock();
  void write_mask() const;
  void require_unpublished();
  void read_state();
  void require_begun_alike(const files::Json& state) const;
  std::string state() const;
  static std::filesystem::path with_suffix(std::filesystem::path path, const char* suffix) { return path += suffix; }

  std::filesystem::path output_, folder_;
  OutputIdentity identity_;
  int token_bytes_;
  Descriptor lock_;
  Committed committed_, latest_;
  bool complete_ = false;
  std::unique_ptr<store::PlainFile> tokens_, lengths_, uncounted_;
};

}  // namespace flotilla::ingest
