#pragma once
#include <span>
#include <string>
#include <vector>

#include "app/common/commands.hpp"
#include "app/common/job.hpp"
#include "app/common/model_options.hpp"
#include "flotilla/inference/generate.hpp"

namespace flotilla::app {

/// Options of `flotilla generate`.
struct GenerateCommandOptions {
  Job::Output output;
  ModelOptions model;
  int tokens = 128;
  inference::SamplingOptions sampling;
  std::int64_t seed = 1;
  std::vector<int> prompt_tokens;             ///< in place of a text
  std::string chat, messages, chat_template;  ///< in place of a text: what a user says; a file of messages; how they are written
  std::vector<int> stop_tokens;
  bool quiet = false;     ///< the prompt is not written
  bool past_end = false;  ///< the token that ends documents does not end the text
};
options::Table generate_table(GenerateCommandOptions&);
BoundTable generate_options();

/// `flotilla generate MODEL TEXT`: goes on with a text. On every rank of a job; rank 0 writes it as it comes.
int generate(std::span<const std::string> arguments);

}  // namespace flotilla::app
