#pragma once
#include <span>
#include <string>
#include <vector>

#include "app/common/commands.hpp"
#include "app/common/job.hpp"
#include "app/common/model_options.hpp"
#include "flotilla/data/format.hpp"

namespace flotilla::app {

/// Options of `flotilla evaluate`.
struct EvaluateOptions {
  Job::Output output;
  ModelOptions model;
  std::vector<std::string> data;
  data::Format format = data::Format::automatic;
  std::string requests;
  bool separate_documents = false;
  int document_end = -1;  ///< token behind which a document ends, beside what files say; -1: none
  int length = 0;         ///< tokens; 0: the run's, or the model's positions, at most 2048
};
options::Table evaluate_table(EvaluateOptions&);
BoundTable evaluate_options();

/// `flotilla evaluate MODEL --data FILE...` or `--requests FILE`: loss and perplexity of files, or log-likelihoods of continuations. On
/// every rank of a job.
int evaluate(std::span<const std::string> arguments);

}  // namespace flotilla::app
