#include "flotilla/inference/generate.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "flotilla/base/error.hpp"
#include "flotilla/model/operations.hpp"
#include "flotilla/mpi/communicator.hpp"

namespace flotilla::inference {
namespace {

/// Tokens of a prompt that go through the model together.
constexpr int block_tokens = 64;

/// The one text of a model with caches: what it has read, and the logits of what comes next.
class GrowingText {
 public:
  explicit GrowingText(LoadedModel& model) : model_{model}, heads_{model.plan().stages.back().replicas.front().devices} {}

  /// Reads tokens, several at once where the cache has room for a whole block.
  void read(std::span<const std::int32_t> tokens) {
    while (tokens.size() > 1 && !one_by_one() && cached_ + block() <= room()) {
      const auto now = tokens.first(std::min(tokens.size(), static_cast<std::size_t>(block())));
      pass(0, now);
      tokens = tokens.subspan(now.size());
    }
    for (; !tokens.empty(); tokens = tokens.subspan(1)) pass(last_program(), tokens.first(1));
  }

  /// Of the token that comes next, the same on every rank.
  std::vector<float> logits() const {
    std::vector<float> all;
    for (const Rank head : heads_) {
      const std::string mine{reinterpret_cast<const char*>(columns_.data()), columns_.size() * sizeof(float)};
      const auto part = mpi::broadcast_string(model_.world().control(), mine, head.value, model_.deadline());
      const auto there = all.size();
      all.resize(there + part.size() / sizeof(float));
      std::memcpy(all.data() + there, part.data(), part.size());
    }
    return all;
  }

 private:
  int block() const { return model_.plan().length; }
  int room() const { return model_.shape().cache; }
  bool one_by_one() const { return model_.shape().lengths.size() == 1; }
  std::size_t last_program() const { return model_.shape().lengths.size() - 1; }

  /// Fewer tokens than the program's length are followed by others, whose keys the next tokens overwrite.
  void pass(std::size_t program, std::span<const std::int32_t> tokens) {
    train::ForwardPass pass;
    pass.cached = cached_;
    pass.read = [&](int, std::span<std::int32_t> all) {
      const auto end = std::ranges::copy(tokens, all.begin()).out;
      std::fill(end, all.end(), 0);
    };
    pass.take_logits = [&](const train::LogitRows& rows) { columns_ = rows.of(std::ssize(tokens) - 1); };
    model_.passes().run(program, pass);
    cached_ += std::ssize(tokens);
  }

  LoadedModel& model_;
  const std::vector<Rank> heads_;  ///< that hold the vocabulary's columns, in order
  std::int64_t cached_ = 0;
  std::vector<float> columns_;  ///< this rank's of the last token
};

}  // namespace

PassShape growing_text(int tokens) {
  if (tokens < block_tokens) return {{1}, tokens};
  return {{block_tokens, 1}, tokens};
}

std::vector<std::int32_t> generate(LoadedModel& model, std::span<const std::int32_t> prompt, const GenerateOptions& options,
                                   const std::function<bool(std::int32_t token)>& take) {
  FLOTILLA_ASSERT(!prompt.empty() && std::ssize(prompt) + options.tokens <= model.shape().cache, prompt.size(), " + ", options.tokens,
                  " tokens; the cache has room for ", model.shape().cache);
  GrowingText text{model};
  text.read(prompt);
  std::vector<std::int32_t> tokens;
  while (std::ssize(tokens) < options.tokens) {
    const auto here = choose_token(text.logits(), options.sampling, std::ssize(tokens));
    const auto token = mpi::all_gather(model.world().control(), here, model.deadline()).front();  // processors may round otherwise
    if (std::ranges::count(options.stops, token) > 0) break;
    tokens.push_back(token);
    if (take && !take(token)) break;
    if (std::ssize(tokens) < options.tokens) text.read({&token, 1});
  }
  return tokens;
}

}  // namespace flotilla::inference
