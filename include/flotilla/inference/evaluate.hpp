#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/data/token_file.hpp"
#include "flotilla/inference/codec.hpp"
#include "flotilla/inference/loaded_model.hpp"

namespace flotilla::inference {

/// Told how many sequences of how many are done.
using TellProgress = std::function<void(std::int64_t done, std::int64_t all)>;

/// The tokens of a file: a token file's, or those of a text. Move-only.
class Text {
 public:
  /// A token file of any format is read as it is; a text file is encoded where the codec has a tokenizer, else taken byte by byte. Throws
  /// Error{bad_input} for a file that cannot be read, for a text above 1 GiB (flotilla tokenize streams such), and for less than two
  /// tokens.
  static Text open(const std::filesystem::path&, data::Format, Codec&);

  const std::string& name() const { return name_; }
  std::int64_t size() const;
  /// Every byte of the file is a token.
  bool is_bytes() const { return file_ && file_->format() == data::Format::text; }
  /// Tokens but the first that count in the loss (data::LossMask).
  std::int64_t counted() const;
  /// Tokens [first, first + tokens.size()); ~token for one that does not count. Throws Error{bad_input} for one outside the vocabulary.
  void read(std::int64_t first, std::span<std::int32_t> tokens, int vocabulary) const;
  /// Whether the file says where documents end.
  bool has_documents() const { return file_ && file_->has_documents(); }
  /// As data::TokenFile::document_starts.
  void document_starts(std::int64_t first, std::span<std::int32_t> starts, std::optional<std::int32_t> end) const;

 private:
  std::string name_;
  std::optional<data::TokenFile> file_;
  std::vector<std::int32_t> tokens_;
};

/// What the model says of a file: every token that counts but the first, each with at most a pass's length before it.
struct TextScore {
  std::string name;
  std::int64_t tokens = 0;
  std::optional<std::int64_t> bytes{};  ///< that these tokens add to a text, where that is known
  double log_probability = 0;           ///< natural logarithm, of all of them

  double loss() const { return -log_probability / static_cast<double>(tokens); }
  double perplexity() const;
  std::optional<double> bits_per_byte() const;
  std::optional<double> byte_perplexity() const;
};

/// Sequences of `length` tokens that the texts are cut into.
std::int64_t sequences_of(const std::vector<Text>&, int length);
/// Scores of the texts, in order, then of all of them together where there are several. Where the model keeps documents apart, a token sees
/// its own alone, which ends where the file says so and behind every token `document_end`. Collective.
std::vector<TextScore> evaluate(LoadedModel&, const std::vector<Text>&, const Codec&, const TellProgress& = {},
                                std::optional<std::int32_t> document_end = std::nullopt);

/// A context and what may follow it, as tokens.
struct Continuation {
  std::vector<std::int32_t> context, continuation;
};

/// Lines of a JSON-lines file: {"context": "...", "continuation": "..."} or lists of tokens under "context_tokens" and
/// "continuation_tokens"; other keys are passed over. Text is split as lm-evaluation-harness does it: white space at a context's end goes
/// to the continuation, and the tokens of the continuation are those of both less as many as the context has. An empty context is the token
/// that ends documents. Throws Error{bad_input} with file and line.
std::vector<Continuation> read_continuations(const std::filesystem::path&, Codec&, int vocabulary);

struct ContinuationScore {
  double log_likelihood = 0;  ///< natural logarithm
  bool is_greedy = false;
  std::int64_t tokens = 0;
};

/// In order. The first tokens of what is longer than a pass are left out. Collective. Throws Error{bad_input} for a continuation that is
/// longer than a pass.
std::vector<ContinuationScore> evaluate(LoadedModel&, const std::vector<Continuation>&, const TellProgress& = {});
/// Length of a pass in which all of them have room, at most `most`.
int length_for(const std::vector<Continuation>&, int most);

}  // namespace flotilla::inference
