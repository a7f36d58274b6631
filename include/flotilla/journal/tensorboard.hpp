#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "flotilla/journal/metrics.hpp"

namespace flotilla::journal {

/// A run for TensorBoard: event files in a folder, one for each start, which TensorBoard reads as one run. A start voids the steps that it
/// repeats. Rank 0 alone has one. Nothing throws: metrics never stop training. Where the folder or a file cannot be made, that is reported
/// on standard error and nothing is written; a full disk is met as metrics.jsonl meets it (PatientAppender, append_file.hpp).
class TensorboardFile {
 public:
  /// What the page of texts shows.
  struct Texts {
    std::string configuration;  ///< a job file
    std::string plan;           ///< plan::summary
    std::string plan_json;      ///< files::plan_to_json
  };
  /// `first_step`: steps complete.
  TensorboardFile(const std::filesystem::path& folder, const std::string& host, int incarnation, std::int64_t first_step,
                  const Texts&) noexcept;
  TensorboardFile(TensorboardFile&&) noexcept;
  TensorboardFile& operator=(TensorboardFile&&) noexcept;
  ~TensorboardFile();

  void write(const StepRecord&) noexcept;
  void write(const EvaluationRecord&) noexcept;
  void write(const CheckpointRecord&) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;  ///< none: it could not be opened
};

}  // namespace flotilla::journal
