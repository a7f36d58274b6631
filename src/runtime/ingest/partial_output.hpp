#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "encoding.hpp"
#include "flotilla/base/descriptor.hpp"
#include "flotilla/ingest/tokenize.hpp"
#include "flotilla/store/plain_file.hpp"

namespace flotilla::ingest {

/// How far an output is: what is committed.
struct Committed {
  ReadPosition position;
  Counts counts;
};

/// OUT.partial: tokens, lengths of sequences, runs of tokens that do not count, and what of them is committed. One process at a time holds
/// it.
class PartialOutput {
 public:
  /// Makes it, or goes on with one of the same `identity`. Throws Error{bad_input} for one of another, and for outputs that exist;
  /// OutputBusy where another process holds it.
  PartialOutput(const std::filesystem::path& output, std::string identity, int token_bytes);

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
  /// Whether anything was committed.
  bool resumable() const;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  void lock();
  void write_mask() const;
  void require_unpublished();
  void read_state();
  std::string state() const;
  static std::filesystem::path with_suffix(std::filesystem::path path, const char* suffix) { return path += suffix; }

  std::filesystem::path output_, folder_;
  std::string identity_;
  int token_bytes_;
  Descriptor lock_;
  Committed committed_, latest_;
  bool complete_ = false;
  std::unique_ptr<store::PlainFile> tokens_, lengths_, uncounted_;
};

}  // namespace flotilla::ingest
