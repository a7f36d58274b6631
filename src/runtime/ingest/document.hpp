#pragma once
#include <string>
#include <vector>

#include "encoding.hpp"
#include "flotilla/files/json.hpp"

namespace flotilla::ingest {

using chat::TextSpan;

/// What is trained on, and what of it counts in the loss.
struct Document {
  std::string text;
  std::vector<TextSpan> counted;  ///< ascending and apart
  bool end_counts = true;         ///< the token that ends it
  bool ends_itself = false;       ///< the text may end with that token: then there is no second one
};

/// Of a JSON line: `field`, a text or a list of messages; where no field is given, `text`, or else `messages`, or else `prompt` and
/// `completion`, of which the completion counts, ShareGPT's `conversations`, or Alpaca's `instruction`, `input` and `output`, of which that
/// counts. Of messages, what the assistant says counts.
/// Throws Error{bad_input} with the line's place and key.
Document read_document(const files::Json& line, const Encoding&);

/// All of a text counts.
Document whole_document(std::string text);

}  // namespace flotilla::ingest
