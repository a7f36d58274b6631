// A run that is continued must be the same run.
#include "flotilla/session/same_run.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "flotilla/files/plan_file.hpp"
#include "flotilla/journal/metrics.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

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
  saved.manifest.training = training_identity(config, 3);
  saved.manifest.seed = 1;
  saved.manifest.step = 3;
  saved.manifest.sequences = 12;
  saved.manifest.data_fingerprint = "abc";
  return saved;
}

std::string refusal_of(const RunConfig& now, const std::string& data, const checkpoint::Loaded& saved) {
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

TEST(SameRun, BeganFromTheSameWeights) {
  auto now = config();
  now.weights = "models/gpt2";
  EXPECT_NO_THROW(require_same_run(now, "abc", saved_by(now)));
  tests::expect_contains(refusal_of(now, "abc", saved_by(config())), "weights = models/gpt2");
  auto other = now;
  other.weights = "models/another";
  const auto message = refusal_of(other, "abc", saved_by(now));
  tests::expect_contains(message, "saved with 'weights = models/gpt2'");
  tests::expect_contains(message, "the job says 'weights = models/another'");
}

TEST(SameRun, HasTheSameAdapters) {
  auto now = config();
  now.architecture.lora = {4, 8, {model::Linear::qkv}, 1, 1};
  auto saved = saved_by(now);
  saved.manifest.plan = files::plan_to_json(plan::even_plan(now.architecture, 16, 4, Precision::fp32, 1, 1, 1, 1));
  for (const auto& tensor : model::tensors(now.architecture))
    if (!tensor.trained) saved.manifest.frozen.push_back(tensor.name);
  EXPECT_NO_THROW(require_same_run(now, "abc", saved));
  now.architecture.lora.rank = 8;
  EXPECT_EQ(refusal_of(now, "abc", saved),
            "run/checkpoint: LoRA differs: saved with rank 4, alpha 8, targets attention.qkv; the job says rank 8, alpha 8, targets "
            "attention.qkv; put [lora] back, or start a new run with --from");
  now.architecture.lora = {};
  tests::expect_contains(refusal_of(now, "abc", saved), "the job says none; put [lora] back");
}

TEST(SameRun, TheSameTensorsAreFrozen) {
  auto now = config();
  now.architecture.frozen = {"embedding.*"};
  auto saved = saved_by(now);
  saved.manifest.frozen = {"embedding.word", "embedding.position"};
  EXPECT_NO_THROW(require_same_run(now, "abc", saved));
  now.architecture.frozen = {"embedding.position", "embedding.w*"};  // other words for the same tensors
  EXPECT_NO_THROW(require_same_run(now, "abc", saved));
  now.architecture.frozen = {"embedding.*", "block.1.norm1.bias"};
  EXPECT_EQ(refusal_of(now, "abc", saved),
            "run/checkpoint: block.1.norm1.bias was trained, the job freezes it; put training.freeze back, or start a new run with --from "
            "run/checkpoint");
  now.architecture.frozen.clear();
  EXPECT_EQ(refusal_of(now, "abc", saved),
            "run/checkpoint: embedding.word was frozen, the job trains it; put training.freeze back, or start a new run with --from "
            "run/checkpoint");
}

TEST(SameRun, FewerStepsThanAreDoneAreRefusedAsSuch) {
  auto now = config();
  now.training.steps = 2;
  EXPECT_EQ(refusal_of(now, "abc", saved_by(config())),
            "run/checkpoint: 3 steps are done, the job says 2; write --training.steps 3 or more, or choose another --run.directory");
  now.training.steps = 3;
  EXPECT_NO_THROW(require_same_run(now, "abc", saved_by(config())));
}

TEST(SameRun, SamplesAndModelMayNot) {
  const auto saved = saved_by(config());
  auto now = config();
  now.training.seed = 2;
  EXPECT_EQ(refusal_of(now, "abc", saved),
            "run/checkpoint: the training differs: saved with 'seed = 1', the job says 'seed = 2'; put it back or choose another "
            "--run.directory");
  now = config();
  now.training.global_batch = 8;
  EXPECT_NE(refusal_of(now, "abc", saved).find("'global-batch = 4', the job says 'global-batch = 8'"), std::string::npos);
  now = config();
  now.architecture.blocks += 1;
  now.architecture.hidden *= 2;
  const auto& then = config().architecture;
  EXPECT_EQ(refusal_of(now, "abc", saved),
            text("run/checkpoint: the model differs: blocks ", then.blocks, " -> ", then.blocks + 1, ", hidden ", then.hidden, " -> ",
                 2 * then.hidden, "; put it back or choose another --run.directory"));
  now = config();
  now.architecture.rotary.theta = 500;
  tests::expect_contains(refusal_of(now, "abc", saved), "rotary_theta none -> 500");
  EXPECT_NE(refusal_of(config(), "abd", saved).find("the training data (fingerprint) differs: saved with 'abc'"), std::string::npos);
}

TEST(SameRun, KeepsItsDocumentsApartOrJoined) {
  auto now = config();
  now.data.separate_documents = true;
  EXPECT_NO_THROW(require_same_run(now, "abc", saved_by(now)));
  tests::expect_contains(refusal_of(now, "abc", saved_by(config())), "saved with '', the job says 'documents = separate'");
  auto other = now;
  other.data.document_end = 7;
  tests::expect_contains(refusal_of(other, "abc", saved_by(now)),
                         "saved with 'documents = separate', the job says 'documents = separate, end token 7'");
}

TEST(SameRun, WhatAManifestCountsFitsTheJob) {
  auto saved = saved_by(config());
  saved.manifest.step = 4;
  EXPECT_NE(refusal_of(config(), "abc", saved).find("the number of sequences at that step differs: saved with '12', the job says '16'"),
            std::string::npos);
  saved = saved_by(config());
  saved.manifest.seed = 2;
  EXPECT_NE(refusal_of(config(), "abc", saved).find("the seed differs"), std::string::npos);
}

void write(const std::filesystem::path& file, const std::string& text) { std::ofstream{file} << text; }

TEST(CheckpointToResume, ANewRunBeginsWhereNothingWasEverSaved) {
  const tests::TemporaryFolder run;
  EXPECT_FALSE(checkpoint_to_resume(run / "none", false));
  journal::MetricsWriter{run, 1}.write(journal::StepRecord{.step = 1});  // killed before it saved
  EXPECT_FALSE(checkpoint_to_resume(run, false));
}

TEST(CheckpointToResume, TracesOfASavedStepAreNotRunOver) {
  const tests::TemporaryFolder run;
  journal::MetricsWriter{run, 1}.write(journal::CheckpointRecord{.step = 40});
  const auto message = tests::refusal(ErrorKind::unavailable, [&] { checkpoint_to_resume(run, false); });
  tests::expect_contains(message, "its journal tells of a checkpoint at step 40, and no checkpoint is there");
  EXPECT_FALSE(checkpoint_to_resume(run, true));
  journal::MetricsWriter{run, 2}.write(journal::StartRecord{.step = 0});  // begun anew: what was saved before is void
  EXPECT_FALSE(checkpoint_to_resume(run, false));
}

TEST(CheckpointToResume, NeitherAreStepFoldersThatNobodyCanRead) {
  const tests::TemporaryFolder run;
  std::filesystem::create_directory(run / "step-20");
  tests::expect_contains(tests::refusal(ErrorKind::unavailable, [&] { checkpoint_to_resume(run, false); }), "it holds step-20");
  write(run / "step-20" / "manifest.json", "{\"format\": ");
  tests::expect_contains(tests::refusal([&] { checkpoint_to_resume(run, false); }), "no checkpoint can be read");
  EXPECT_FALSE(checkpoint_to_resume(run, true));
}

TEST(CheckpointToResume, AnEarlierCheckpointIsTakenAndTheLaterOneNamed) {
  const tests::TemporaryFolder run;
  journal::MetricsWriter{run, 1}.write(journal::CheckpointRecord{.step = 40});
  std::filesystem::create_directory(run / "step-20");
  checkpoint::Manifest manifest;
  manifest.step = 20;
  write(run / "step-20" / "manifest.json", checkpoint::manifest_to_json(manifest));
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(checkpoint_to_resume(run, false)->manifest.step, 20);
  tests::expect_contains(::testing::internal::GetCapturedStderr(), "the journal tells of a checkpoint at step 40");
}

}  // namespace
}  // namespace flotilla::session
