#include "flotilla/session/same_run.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/files/plan_file.hpp"

namespace flotilla::session {

std::string training_identity(const RunConfig& config) {
  // Names and dropout may change: another spelling of the same model is the same training, and dropout is a knob like the learning rate.
  auto shape = config.architecture;
  shape.name = shape.family = "";
  shape.dropout = shape.attention_dropout = 0;
  std::string model = files::model_to_json(shape);
  model.erase(std::remove_if(model.begin(), model.end(), [](char c) { return c == '\n' || c == ' '; }), model.end());
  return text("model = ", model, "\nlength = ", config.training.length, "\nglobal-batch = ", config.training.global_batch,
              "\nseed = ", config.training.seed, "\n");
}

void require_same_run(const RunConfig& config, const std::string& data, const checkpoint::Loaded& saved) {
  const auto refuse = [&](const char* what, const std::string& theirs, const std::string& ours) {
    throw Error{ErrorKind::bad_input, text(saved.directory.string(), ": ", what, " differs: saved with '", theirs, "', the job says '",
                                           ours, "'; put it back or choose another --run.directory")};
  };
  const std::string ours = training_identity(config);
  if (saved.manifest.training != ours) {
    const auto [a, b] = std::mismatch(saved.manifest.training.begin(), saved.manifest.training.end(), ours.begin(), ours.end());
    const auto line = [](const std::string& all, std::string::const_iterator at) {
      const auto offset = static_cast<std::size_t>(at - all.begin());
      const auto begin = offset == 0 ? std::string::npos : all.rfind('\n', offset - 1);
      const auto first = begin == std::string::npos ? 0 : begin + 1;
      return all.substr(first, all.find('\n', first) - first);
    };
    refuse("the training", line(saved.manifest.training, a), line(ours, b));
  }
  if (saved.manifest.data_fingerprint != data) refuse("the training data (fingerprint)", saved.manifest.data_fingerprint, data);
}

}  // namespace flotilla::session
