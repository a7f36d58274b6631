#include "start_from.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/weights/carried.hpp"

namespace flotilla::session {
namespace {

/// A run's newest checkpoint changes while it goes on, so a checkpoint is named.
void require_checkpoint(const std::filesystem::path& directory) {
  if (!files::facts_of(directory / "manifest.json")) {
    const auto steps = checkpoint::list(directory);
    throw Error{ErrorKind::bad_input, text("--from ", directory.string(),
                                           steps.empty() ? ": is no checkpoint; expected RUN/step-N, with its manifest.json"
                                                         : text(": is a run; write --from ", steps.back().directory.string()))};
  }
  FLOTILLA_REQUIRE(!checkpoint::read_manifest(directory).exploded, ErrorKind::bad_input, "--from ", directory.string(),
                   ": its weights are not finite or have exploded; name an earlier checkpoint");
}

/// Of what the checkpoint has no moments.
void remark_on_frozen(const std::vector<model::Tensor>& tensors, const checkpoint::Manifest& manifest,
                      const std::filesystem::path& directory) {
  const auto begins = [&](const model::Tensor& tensor) {
    return tensor.trained && std::ranges::find(manifest.frozen, tensor.name) != manifest.frozen.end();
  };
  const auto count = std::ranges::count_if(tensors, begins);
  if (count == 0) return;
  log::warning("--from ", directory.string(), ": ", count, count == 1 ? " tensor was" : " tensors were", " frozen there, ",
               std::ranges::find_if(tensors, begins)->name, count == 1 ? "" : " the first", "; moments begin at zero");
}

void carry(const std::filesystem::path& from, const std::filesystem::path& run) {
  const auto theirs = weights::carried_folder(std::filesystem::absolute(from / "").lexically_normal().parent_path().parent_path());
  if (files::facts_of(theirs / ".")) weights::carry(theirs, weights::carried_folder(run));
}

}  // namespace

void start_from_checkpoint(const comm::World& active, const RunConfig& config, const std::filesystem::path& run, train::Trainer& trainer) {
  const std::filesystem::path directory = config.run.from;
  const auto deadline = config.comm.deadline;
  comm::agree_on(
      active, "looking for the checkpoint to start from", [&] { require_checkpoint(directory); }, deadline);
  const auto state = trainer.state();
  const auto manifest = checkpoint::load(active, directory, state, {deadline});
  if (config.run.from_optimizer) {
    if (active.rank() == Rank{0}) remark_on_frozen(*state.tensors, manifest, directory);
    trainer.adopt(manifest.optimizer_steps, manifest.loss_scale);
  } else {
    for (const auto& part : state.parts) {
      std::ranges::fill(part.moment1, 0.0f);
      std::ranges::fill(part.moment2, 0.0f);
    }
    trainer.adopt(0);
  }
  comm::agree_on(
      active, "keeping the model's configuration and tokenizer",
      [&] {
        if (active.rank() == Rank{0}) carry(directory, run);
      },
      deadline);
}

}  // namespace flotilla::session
