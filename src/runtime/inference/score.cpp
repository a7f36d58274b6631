#include "score.hpp"

#include <algorithm>

#include "flotilla/mpi/communicator.hpp"

namespace flotilla::inference {
namespace {

/// As ranks exchange it: a score where this rank has it, else nothing.
struct SharedScore {
  PassageScore score;
  bool known = false;
};

PassageScore sum(std::span<const compute::TokenScore> tokens) {
  PassageScore all;
  for (const auto& token : tokens) {
    all.log_probability += token.log_probability;
    all.all_most_likely = all.all_most_likely && token.most_likely;
  }
  return all;
}

/// Of one pass, on every rank.
std::vector<PassageScore> gathered(const LoadedModel& model, const std::vector<SharedScore>& mine) {
  std::vector<PassageScore> all(mine.size());
  const auto bytes = mpi::all_gather_bytes(model.world().control(), std::as_bytes(std::span{mine}), model.deadline());
  std::vector<SharedScore> shared(mine.size() * static_cast<std::size_t>(model.world().size()));
  std::ranges::copy(bytes, std::as_writable_bytes(std::span{shared}).begin());
  for (std::size_t i = 0; i < shared.size(); ++i)
    if (shared[i].known) all[i % all.size()] = shared[i].score;
  return all;
}

}  // namespace

std::vector<PassageScore> score(LoadedModel& model, const Passages& passages, const std::function<void(std::int64_t done)>& progress) {
  const int sequences = model.sequences(), length = model.plan().length;
  std::vector<PassageScore> scores;
  for (std::int64_t first = 0; first < passages.count; first += sequences) {
    std::vector<SharedScore> mine(static_cast<std::size_t>(std::min<std::int64_t>(sequences, passages.count - first)));
    train::ForwardPass pass;
    pass.read = [&](int sequence, std::span<std::int32_t> tokens) {
      if (first + sequence < passages.count) return passages.read(first + sequence, tokens);
      std::ranges::fill(tokens, 0);
    };
    pass.read_documents = [&](int sequence, std::span<std::int32_t> starts) {
      if (first + sequence < passages.count) return passages.documents(first + sequence, starts);
      std::ranges::fill(starts, 0);
    };
    pass.take_scores = [&](int begin, std::span<const compute::TokenScore> tokens) {
      for (int s = begin; !tokens.empty(); ++s, tokens = tokens.subspan(static_cast<std::size_t>(length))) {
        if (first + s >= passages.count) return;
        const auto targets = passages.targets(first + s);
        const auto counted = tokens.subspan(static_cast<std::size_t>(targets.first), static_cast<std::size_t>(targets.count()));
        mine[static_cast<std::size_t>(s)] = {sum(counted), true};
      }
    };
    model.passes().run(0, pass);
    for (const auto& score : gathered(model, mine)) scores.push_back(score);
    if (progress) progress(std::ssize(scores));
  }
  return scores;
}

}  // namespace flotilla::inference
