#include "flotilla/session/same_run.hpp"

#include <algorithm>
#include <set>

#include "flotilla/base/error.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/journal/history.hpp"
#include "flotilla/model/tensors.hpp"
#include "flotilla/session/phases.hpp"

namespace flotilla::session {

namespace {

/// What tells that steps were saved here; empty: nothing.
std::string traces(const std::filesystem::path& run) {
  if (const auto step = journal::last_saved_step(run); step > 0) return text("its journal tells of a checkpoint at step ", step);
  if (const auto found = checkpoint::uncommitted(run); !found.empty()) return text("it holds ", found.front().filename().string());
  return {};
}

/// " (step 120 is on n1 only, ...)", where that is why it is not here.
std::string local_in_words(const std::filesystem::path& run) {
  const auto local = journal::undrained(journal::read_metrics(run));
  return local ? text(" (", journal::undrained_in_words(*local), ": --checkpoint.local brings it back while those nodes have it)")
               : std::string{};
}

std::optional<checkpoint::Loaded> latest_unless(const std::filesystem::path& run, bool start_over) {
  try {
    return checkpoint::latest(run);
  } catch (const Error& error) {
    if (!start_over || error.kind() != ErrorKind::bad_input) throw;
    log::warning(error.what());
    return std::nullopt;
  }
}

}  // namespace

std::optional<checkpoint::Loaded> checkpoint_to_resume(const std::filesystem::path& run, bool start_over) {
  auto saved = latest_unless(run, start_over);
  if (saved) {
    if (const auto told = journal::last_saved_step(run); told > saved->manifest.step)
      log::warning(run.string(), ": the journal tells of a checkpoint at step ", told, local_in_words(run),
                   "; the newest that can be read is of step ", saved->manifest.step);
    return saved;
  }
  if (start_over) return std::nullopt;
  const auto found = traces(run);
  FLOTILLA_REQUIRE(found.empty(), ErrorKind::unavailable, run.string(), ": ", found,
                   ", and no checkpoint is there; bring it back, choose another --run.directory, or begin anew with --run.start-over");
  return std::nullopt;
}

namespace {

std::string sources_in_words(const std::vector<double>& weights, const std::vector<RunConfig::DataSource>& sources) {
  std::string words;
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (weights[i] > 0) words += text(words.empty() ? "" : ", ", sources[i].name, "=", formatted("%.17g", weights[i]));
  return words;
}

/// A line for each phase that has begun, but for what is said of the first already.
std::string phases_in_words(const RunConfig& config, std::int64_t steps_done) {
  std::string lines;
  const auto phases = phases_of(config);
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const auto& phase = phases[i];
    const auto sources = sources_in_words(phase.weights, config.data.sources);
    if (i > 0 && phase.first_step < steps_done)
      lines += text("phase ", i + 1, " = from step ", phase.first_step, ", length ", phase.length, ", global-batch ", phase.global_batch,
                    sources.empty() ? "" : ", sources ", sources, "\n");
    else if (i == 0 && !sources.empty())
      lines += text("sources = ", sources, "\n");
  }
  return lines;
}

/// Nothing where sequences are one document each, as they were before there was a choice.
std::string documents_in_words(const RunConfig::Data& data) {
  if (!data.separate_documents) return {};
  return text("documents = separate", data.document_end < 0 ? "" : text(", end token ", data.document_end), "\n");
}

}  // namespace

std::string training_identity(const RunConfig& config, std::int64_t steps_done) {
  // Names and dropout may change: another spelling of the same model is the same training, and dropout is a knob like the learning rate.
  auto shape = config.architecture;
  shape.name = shape.family = "";
  shape.dropout = shape.attention_dropout = 0;
  shape.frozen.clear();  // their names are compared
  std::string model = files::model_to_json(shape);
  model.erase(std::remove_if(model.begin(), model.end(), [](char c) { return c == '\n' || c == ' '; }), model.end());
  const auto first = phases_of(config).front();
  return text("model = ", model, "\nlength = ", first.length, "\nglobal-batch = ", first.global_batch, "\nseed = ", config.training.seed,
              "\n", config.weights.empty() ? "" : text("weights = ", config.weights, "\n"),
              config.run.from.empty() ? "" : text("from = ", config.run.from, "\n"), documents_in_words(config.data),
              phases_in_words(config, steps_done));
}

namespace {

/// Moments are there for what was trained, and what was trained is no longer what the run began with.
void require_same_frozen(const model::Config& model, const checkpoint::Loaded& saved) {
  const std::set<std::string> then{saved.manifest.frozen.begin(), saved.manifest.frozen.end()};
  for (const auto& tensor : model::tensors(model))
    if (const bool was_frozen = then.contains(tensor.name); was_frozen == tensor.trained)
      throw Error{ErrorKind::bad_input, text(saved.directory.string(), ": ", tensor.name,
                                             was_frozen ? " was frozen, the job trains it" : " was trained, the job freezes it",
                                             "; put training.freeze back, or start a new run with --from ", saved.directory.string())};
}

}  // namespace

namespace {

/// Fewer steps would end among those that are done, where the checkpoint is not.
void require_steps_left(const RunConfig& config, const checkpoint::Loaded& saved) {
  const auto done = saved.manifest.step, steps = config.training.steps;
  FLOTILLA_REQUIRE(done <= steps, ErrorKind::bad_input, saved.directory.string(), ": ", done, " steps are done, the job says ", steps,
                   "; write --training.steps ", done, " or more, or choose another --run.directory");
}

std::string lora_in_words(const model::Lora& lora) {
  if (!lora.on()) return "none";
  std::string words = text("rank ", lora.rank, ", alpha ", lora.alpha, ", targets");
  for (const auto target : lora.targets) words += text(" ", model::to_string(target));
  return words;
}

/// Moments are of the adapters that the run began with.
void require_same_adapters(const model::Lora& ours, const checkpoint::Loaded& saved) {
  if (saved.manifest.plan.empty()) return;
  const auto plan = files::plan_from_json(saved.manifest.plan, (saved.directory / "manifest.json").string() + ": /plan");
  FLOTILLA_REQUIRE(lora_in_words(plan.model.lora) == lora_in_words(ours), ErrorKind::bad_input, saved.directory.string(),
                   ": LoRA differs: saved with ", lora_in_words(plan.model.lora), "; the job says ", lora_in_words(ours),
                   "; put [lora] back, or start a new run with --from");
}

constexpr std::string_view model_key = "model = ";

/// "hidden 128 -> 256, blocks 2 -> 4": of two lines of training_identity().
std::string changed_fields(const std::string& theirs, const std::string& ours, const std::string& source) {
  const auto then = files::Json::parse(theirs.substr(model_key.size()), source),
             now = files::Json::parse(ours.substr(model_key.size()), "");
  const auto keys_then = then.keys(), keys_now = now.keys();
  std::set<std::string> keys{keys_then.begin(), keys_then.end()};
  keys.insert(keys_now.begin(), keys_now.end());
  const auto value = [](const files::Json& model, const std::string& key) { return model.has(key) ? model.at(key).one_line() : "none"; };
  std::string words;
  for (const auto& key : keys)
    if (const auto was = value(then, key), is = value(now, key); was != is)
      words += text(words.empty() ? "" : ", ", key, " ", was, " -> ", is);
  return words;
}

}  // namespace

OtherRun::OtherRun(const std::string& checkpoint, std::string difference)
    : Error{ErrorKind::bad_input, text(checkpoint, ": ", difference, "; put it back or choose another --run.directory")},
      difference_{std::move(difference)} {}

void require_same_run(const RunConfig& config, const std::string& data, const checkpoint::Loaded& saved) {
  const auto refuse = [&](const char* what, const std::string& theirs, const std::string& ours) {
    throw OtherRun{saved.directory.string(), text(what, " differs: saved with ", in_quotes(theirs), ", the job says ", in_quotes(ours))};
  };
  require_steps_left(config, saved);
  require_same_adapters(config.architecture.lora, saved);
  require_same_frozen(config.architecture, saved);
  const std::string ours = training_identity(config, saved.manifest.step);
  if (saved.manifest.training != ours) {
    const auto [a, b] = std::mismatch(saved.manifest.training.begin(), saved.manifest.training.end(), ours.begin(), ours.end());
    const auto line = [](const std::string& all, std::string::const_iterator at) {
      const auto offset = static_cast<std::size_t>(at - all.begin());
      const auto begin = offset == 0 ? std::string::npos : all.rfind('\n', offset - 1);
      const auto first = begin == std::string::npos ? 0 : begin + 1;
      return all.substr(first, all.find('\n', first) - first);
    };
    const auto theirs = line(saved.manifest.training, a), mine = line(ours, b);
    if (theirs.starts_with(model_key) && mine.starts_with(model_key))
      throw OtherRun{saved.directory.string(), text("the model differs: ", changed_fields(theirs, mine, saved.directory.string()))};
    refuse("the training", theirs, mine);
  }
  const auto& manifest = saved.manifest;
  if (manifest.seed != static_cast<std::uint64_t>(config.training.seed))
    refuse("the seed", text(manifest.seed), text(config.training.seed));
  const auto sequences = sequences_before(phases_of(config), manifest.step);
  if (manifest.sequences != sequences) refuse("the number of sequences at that step", text(manifest.sequences), text(sequences));
  if (manifest.data.empty() && manifest.data_fingerprint != data)
    refuse("the training data (fingerprint)", saved.manifest.data_fingerprint, data);
}

}  // namespace flotilla::session
