#include "start_from.hpp"

#include <algorithm>
#include <iterator>

#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/model/tensors.hpp"
#include "flotilla/weights/carried.hpp"

namespace flotilla::session {
namespace {

/// A run's newest checkpoint changes while it goes on, so a checkpoint is named.
void require_checkpoint(const std::filesystem::path& directory) {
  files::require_there(directory, "RUN/step-N, a checkpoint with its manifest.json (--from)");
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

/// Whether the checkpoint is of the same model without the run's adapters. One with others goes on merged alone.
bool lacks_adapters(const std::filesystem::path& directory, const model::Lora& ours) {
  const auto manifest = checkpoint::read_manifest(directory);
  const auto theirs = manifest.plan.empty()
                          ? model::Lora{}
                          : files::plan_from_json(manifest.plan, (directory / "manifest.json").string() + ": /plan").model.lora;
  FLOTILLA_REQUIRE(
      !theirs.on() || theirs == ours, ErrorKind::bad_input, "--from ", directory.string(), ": has LoRA adapters of rank ", theirs.rank,
      ", alpha ", theirs.alpha,
      "; give the job the same [lora], or export it with flotilla export hf, which merges them, and begin with --model.weights");
  return ours.on() && !theirs.on();
}

/// What a model without adapters has: the first tensors, which are put into `own`.
checkpoint::LocalState without_adapters(checkpoint::LocalState state, std::vector<model::Tensor>& own) {
  std::ranges::copy_if(*state.tensors, std::back_inserter(own), [](const auto& tensor) { return !model::is_adapter(tensor); });
  std::erase_if(state.parts, [&](const auto& part) { return part.tensor >= static_cast<int>(own.size()); });
  state.tensors = &own;
  return state;
}

void carry(const std::filesystem::path& from, const std::filesystem::path& run) {
  const auto theirs = weights::carried_folder(std::filesystem::absolute(from / "").lexically_normal().parent_path().parent_path());
  if (files::facts_of(theirs / ".")) weights::carry(theirs, weights::carried_folder(run));
}

}  // namespace

void start_from_checkpoint(const comm::World& active, const RunConfig& config, const std::filesystem::path& run, train::Trainer& trainer) {
  const std::filesystem::path directory = config.run.from;
  const auto deadline = config.comm.deadline;
  const bool adds_adapters = comm::agree_on(
      active, "looking for the checkpoint to start from",
      [&] {
        require_checkpoint(directory);
        return lacks_adapters(directory, config.architecture.lora);
      },
      deadline);
  if (adds_adapters) trainer.initialize();
  std::vector<model::Tensor> own;
  const auto state = adds_adapters ? without_adapters(trainer.state(), own) : trainer.state();
  const auto manifest = checkpoint::load(active, directory, state, {deadline});
  if (adds_adapters && config.run.from_optimizer && active.rank() == Rank{0})
    log::warning("--from ", directory.string(), ": has no moments of adapters; they begin at zero");
  if (config.run.from_optimizer && !adds_adapters) {
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
