#include "flotilla/inference/subject.hpp"

#include "flotilla/base/error.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/files/hugging_face.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/weights/carried.hpp"

namespace flotilla::inference {
namespace {

namespace fs = std::filesystem;

Subject checkpoint_at(const fs::path& step) {
  const auto manifest = checkpoint::read_manifest(step);
  FLOTILLA_REQUIRE(!manifest.plan.empty(), ErrorKind::bad_input, (step / "manifest.json").string(),
                   ": /plan: the checkpoint does not say its plan, which names the model");
  Subject subject{step, true, {}, files::plan_from_json(manifest.plan, (step / "manifest.json").string()), {}, step.string()};
  subject.model = subject.plan->model;
  subject.tokenizer = weights::tokenizer_of_checkpoint(step);
  return subject;
}

Subject subject_at(const fs::path& path) {
  if (files::facts_of(path / "manifest.json")) return checkpoint_at(path);
  if (files::facts_of(path / "config.json"))
    return {path, false, files::read_hugging_face_config(path / "config.json"), {}, weights::tokenizer_in(path), path.string()};
  const auto newest = checkpoint::latest(path);
  FLOTILLA_REQUIRE(newest, ErrorKind::bad_input, path.string(),
                   ": no model: neither a run with a committed checkpoint (step-N/manifest.json), nor a checkpoint (manifest.json), nor a "
                   "Hugging Face model (config.json)");
  return checkpoint_at(newest->directory);
}

}  // namespace

Subject find_subject(const fs::path& path) {
  files::require_there(path, "a run, a checkpoint or a Hugging Face model");
  Subject subject = subject_at(path);
  model::require_executable(subject.model, path.string());
  return subject;
}

}  // namespace flotilla::inference
