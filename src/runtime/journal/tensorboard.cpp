#include "flotilla/journal/tensorboard.hpp"

#include <cmath>
#include <cstdio>

#include "append_file.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/files/text_file.hpp"
#include "process.hpp"
#include "tensorboard_event.hpp"

namespace flotilla::journal {
namespace {

namespace fs = std::filesystem;

/// TensorBoard reads the files of a folder in the order of their names: the time comes first. Of a host's name only what cannot lead
/// elsewhere counts.
std::string file_name(double time, const std::string& host, int incarnation, std::int64_t step) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%010.0f", std::floor(time));
  std::string name;
  for (const char c : host.substr(0, 64))
    name += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ? c : '_';
  return text("events.out.tfevents.", seconds, ".", name, ".", incarnation, ".", step);
}

/// A block of Markdown that shows text as it is. Four blanks, not a fence: no text can end them.
std::string verbatim(const std::string& words) {
  std::string out = "    ";
  for (const char c : words) {
    out += c;
    if (c == '\n') out += "    ";
  }
  return out;
}

}  // namespace

struct TensorboardFile::State {
  PatientAppender file;

  template <class Event>
  void write(const Event& event) noexcept {
    try {
      file.append(event());
    } catch (...) {
      file.lose();
    }
  }

  void begin(std::int64_t first_step, const Texts& texts) {
    const double time = wall_clock();
    file.append(event_of_version(time));
    file.append(event_of_start(time, first_step + 1));
    file.append(event_of_text(time, first_step, "configuration", verbatim(texts.configuration)));
    file.append(event_of_text(time, first_step, "plan", verbatim(texts.plan + "\n\n" + texts.plan_json)));
  }
};

TensorboardFile::TensorboardFile(const fs::path& folder, const std::string& host, int incarnation, std::int64_t first_step,
                                 const Texts& texts) noexcept {
  try {
    files::make_own_folder(folder);
    const auto path = folder / file_name(wall_clock(), host, incarnation, first_step);
    state_.reset(new State{{AppendFile::fresh(path), {path.string(), "record", "records"}}});
    state_->begin(first_step, texts);
  } catch (const std::exception& error) {
    log::warning(error.what(), "; training continues without it (--report.tensorboard)");
  } catch (...) {
  }
}
TensorboardFile::TensorboardFile(TensorboardFile&&) noexcept = default;
TensorboardFile& TensorboardFile::operator=(TensorboardFile&&) noexcept = default;
TensorboardFile::~TensorboardFile() = default;

void TensorboardFile::write(const StepRecord& r) noexcept {
  if (!state_) return;
  state_->write([&] {
    std::vector<Scalar> scalars{{"optimizer/learning_rate", r.learning_rate},
                                {"optimizer/gradient_norm", r.gradient_norm},
                                {"speed/tokens_per_second", r.tokens_per_second},
                                {"speed/step_seconds", r.step_seconds},
                                {"speed/mfu", r.share_of_peak}};
    if (!r.empty()) scalars.push_back({"loss/training", r.loss});
    for (const auto& one : r.sources) scalars.push_back({"loss/training/" + one.source, one.loss});
    return event_of_scalars(r.time == 0 ? wall_clock() : r.time, r.step, scalars);
  });
}

void TensorboardFile::write(const EvaluationRecord& r) noexcept {
  if (!state_) return;
  state_->write([&] {
    std::vector<Scalar> scalars{{"loss/validation", r.loss}, {"speed/evaluation_seconds", r.seconds}};
    for (const auto& one : r.sources) scalars.push_back({"loss/validation/" + one.source, one.loss});
    return event_of_scalars(r.time == 0 ? wall_clock() : r.time, r.step, scalars);
  });
}

void TensorboardFile::write(const CheckpointRecord& r) noexcept {
  if (!state_) return;
  state_->write([&] { return event_of_scalars(r.time == 0 ? wall_clock() : r.time, r.step, {{"speed/checkpoint_seconds", r.seconds}}); });
}

}  // namespace flotilla::journal
