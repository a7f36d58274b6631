// A run that is continued must be the same run.
#include "flotilla/session/same_run.hpp"

#include <gtest/gtest.h>

#include "support/refusal.hpp"

namespace flotilla::session {
namespace {

RunConfig config() {
  RunConfig config;
  config.architecture = model::built_in("gpt2-tiny");
  config.training.length = 16;
  config.training.global_batch = 4;
  return config;
}

checkpoint::Loaded saved_by(const RunConfig& config) {
  checkpoint::Loaded saved;
  saved.directory = "run/checkpoint";
  saved.manifest.training = training_identity(config);
  saved.manifest.data_fingerprint = "abc";
  return saved;
}

std::string refusal(const RunConfig& now, const std::string& data, const checkpoint::Loaded& saved) {
  return tests::refusal([&] { require_same_run(now, data, saved); });
}

TEST(SameRun, KnobsMayChange) {
  auto now = config();
  now.training.learning_rate *= 2;
  now.training.steps += 100;
  now.training.precision = Precision::bf16;
  now.architecture.name = "mine";
  now.architecture.dropout = 0.1;
  EXPECT_NO_THROW(require_same_run(now, "abc", saved_by(config())));
}

TEST(SameRun, SamplesAndModelMayNot) {
  const auto saved = saved_by(config());
  auto now = config();
  now.training.seed = 2;
  EXPECT_EQ(refusal(now, "abc", saved),
            "run/checkpoint: the training differs: saved with 'seed = 1', the job says 'seed = 2'; put it back or choose another "
            "--run.directory");
  now = config();
  now.training.global_batch = 8;
  EXPECT_NE(refusal(now, "abc", saved).find("'global-batch = 4', the job says 'global-batch = 8'"), std::string::npos);
  now = config();
  now.architecture.blocks += 1;
  EXPECT_NE(refusal(now, "abc", saved).find("the training differs: saved with 'model = "), std::string::npos);
  EXPECT_NE(refusal(config(), "abd", saved).find("the training data (fingerprint) differs: saved with 'abc'"), std::string::npos);
}

}  // namespace
}  // namespace flotilla::session
