#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/data/sampler.hpp"

/// What a checkpoint says of the data that a run has been trained on. Pure.
namespace flotilla::session {

struct SourceRecord {
  std::string name;
  double weight = 1;
  std::int64_t epochs = 0;
  std::vector<std::string> files;  ///< fingerprint of each section (data::Corpus::fingerprint), in the order that they were first used
  std::vector<data::Growth> growth = {};
  std::size_t files_at_start = 0;  ///< before the first growth; all of them where there was none
  bool operator==(const SourceRecord&) const = default;
};

/// "data" of a manifest: docs/formats/checkpoint.md.
std::string to_json(const std::vector<SourceRecord>&);
/// Throws Error{bad_input}: "<source>: <JSON pointer>: <what was expected>".
std::vector<SourceRecord> data_record_from_json(std::string_view json, std::string_view source);

/// A run that was trained on `saved` for `step` steps goes on with what the job names now: the same sources, weights and epochs, and all
/// the files of each, in any order; files that are new become a growth at that step. `source` is for errors: the checkpoint.
/// Throws Error{bad_input} where something else has changed.
std::vector<SourceRecord> continued(const std::vector<SourceRecord>& saved, const std::vector<SourceRecord>& job, std::int64_t step,
                                    std::string_view source);

}  // namespace flotilla::session
