#include "model_card.hpp"

#include <algorithm>
#include <array>

#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/text.hpp"

namespace flotilla::weights {
namespace {

/// Of a manifest's provenance, what says how a model was made; hosts and configuration stay at home.
constexpr std::array told{"software", "compute", "device types", "ranks", "started", "weights"};

std::string row(std::string_view what, std::string_view value) { return text("| ", what, " | ", printable(value), " |\n"); }

}  // namespace

std::string model_card(const checkpoint::Manifest& manifest, const plan::Plan& plan, Precision precision) {
  std::string card = text("---\nlibrary_name: transformers\n---\n\n# ", printable(plan.model.name), "\n\nTrained with Flotilla ",
                          FLOTILLA_VERSION, ", exported from the checkpoint of step ", manifest.step, ".\n\n| | |\n|---|---|\n");
  card += row("family", plan.model.family);
  card += row("weights", to_string(precision));
  if (const auto& lora = plan.model.lora; lora.on()) card += row("LoRA", text("rank ", lora.rank, ", alpha ", lora.alpha));
  card += row("steps", text(manifest.step, ", of which ", manifest.optimizer_steps, " updated the weights"));
  card += row("tokens", text(manifest.sequences * plan.length, " in sequences of ", plan.length));
  card += row("global batch", text(plan.global_batch, " sequences"));
  card += row("seed", text(manifest.seed));
  card += row("fingerprint of the data", manifest.data_fingerprint);
  for (const auto& [key, value] : manifest.provenance)
    if (std::ranges::find(told, key) != told.end()) card += row(key, value);
  return card;
}

}  // namespace flotilla::weights
