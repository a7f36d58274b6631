#pragma once
#include <span>
#include <string>

#include "app/common/commands.hpp"
#include "app/common/job.hpp"
#include "flotilla/ingest/tokenize.hpp"

namespace flotilla::app {

/// Options of `flotilla tokenize`.
struct TokenizeCommandOptions {
  Job::Output output;
  std::string tokenizer;
  std::string chat_template;
  ingest::TokenizeOptions tokenize;
};
options::Table tokenize_table(TokenizeCommandOptions&);
BoundTable tokenize_options();

/// `flotilla tokenize --tokenizer FILE IN... -o OUT`: text files to one Megatron pair, OUT.bin and OUT.idx. Local. Returns 75 where a
/// signal has stopped it: the same command goes on. Throws Error.
int tokenize(std::span<const std::string> arguments);

}  // namespace flotilla::app
