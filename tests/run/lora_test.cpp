// Runs with LoRA adapters as their users start them: from a checkpoint and from weights, resumed on other plans, evaluated, exported.
#include <cmath>

#include "flotilla/checkpoint/stored_parameters.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/model/tensors.hpp"
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

/// A run of three steps without adapters.
const fs::path& base() {
  static const fs::path run = [] {
    const auto ended = tests::run(train(folder() / "base", 1, {"--training.steps=3", "--checkpoint.keep=0"}));
    EXPECT_EQ(ended.code, 0) << ended.err;
    return folder() / "base";
  }();
  return run;
}

const Words adapters{"--lora.rank=4", "--lora.alpha=8", "--training.learning-rate=3e-3", "--training.minimum-learning-rate=3e-3"};

Words adapted(const fs::path& run, int ranks, int steps, const Words& more) {
  return train(run, ranks, Words{text("--training.steps=", steps)} + adapters + more);
}

std::vector<float> parameters_of(const fs::path& step, bool of_adapters) {
  const auto manifest = checkpoint::read_manifest(step);
  const auto tensors = model::tensors(files::plan_from_json(manifest.plan, step.string()).model);
  checkpoint::StoredParameters stored{step, tensors};
  std::vector<float> all;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (model::is_adapter(tensors[t]) != of_adapters) continue;
    std::vector<float> values(static_cast<std::size_t>(tensors[t].elements()));
    stored.read(static_cast<int>(t), {{.inner = tensors[t].elements()}}, values);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

double loss_of(const fs::path& model, int ranks = 1, const Words& more = {}) {
  const auto ended = tests::run(mpirun(ranks) +
                                Words{FLOTILLA_BINARY, "evaluate", model.string(), text_file().string(), "--length", "32",
                                      "--evaluate.format", "text", "--format", "json"} +
                                more);
  EXPECT_EQ(ended.code, 0) << ended.err;
  return files::Json::parse(ended.out, "evaluate").at("files").items().front().get_double("loss");
}

/// The model's own parameters keep their bits through plans, restarts and all; the adapters alone move.
TEST(LoraRun, TrainsTheAdaptersAlone) {
  const auto step = checkpoint::step_directory(base(), 3), run = folder() / "lora";
  const auto began = tests::run(adapted(run, 2, 2, {"--plan.tensor=2", "--from", step.string()}));
  ASSERT_EQ(began.code, 0) << began.err;
  const auto halfway = parameters_of(checkpoint::step_directory(run, 2), true);
  const auto resumed = tests::run(adapted(run, 1, 4, {"--from", step.string()}));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const auto newest = checkpoint::step_directory(run, 4);
  EXPECT_EQ(parameters_of(newest, false), parameters_of(step, false));
  EXPECT_NE(parameters_of(newest, true), halfway);
  EXPECT_EQ(losses(run).size(), 4u);

  const auto other = tests::run(with(adapted(run, 1, 6, {"--from", step.string()}), "--lora.rank=", "8"));
  EXPECT_EQ(other.code, 65);
  EXPECT_NE(the_error(other).find("LoRA differs: saved with rank 4, alpha 8"), std::string::npos);
  const auto again = tests::run(with(adapted(folder() / "other", 1, 4, {"--from", newest.string()}), "--lora.rank=", "8"));
  EXPECT_EQ(again.code, 65);
  EXPECT_NE(the_error(again).find("has LoRA adapters of rank 4, alpha 8; give the job the same [lora]"), std::string::npos);
}

/// What is exported merged scores as the adapters beside the weights do, on any number of ranks, and not as the weights alone.
TEST(LoraRun, IsEvaluatedAndExportedMerged) {
  const auto weights = folder() / "base-model", run = folder() / "from-weights", merged = folder() / "merged",
             adapter = folder() / "adapter";
  ASSERT_EQ(tests::run({FLOTILLA_BINARY, "export", "hf", base().string(), "-o", weights.string()}).code, 0);
  auto words = adapted(run, 2, 6, {"--plan.pipeline=2", "--model.weights", weights.string()});
  std::erase(words, "--model.name=gpt2-tiny");
  const auto trained = tests::run(words);
  ASSERT_EQ(trained.code, 0) << trained.err;
  ASSERT_EQ(tests::run({FLOTILLA_BINARY, "export", "hf", run.string(), "-o", merged.string()}).code, 0);
  ASSERT_EQ(tests::run({FLOTILLA_BINARY, "export", "hf", run.string(), "--adapter", "-o", adapter.string()}).code, 0);
  EXPECT_TRUE(fs::exists(adapter / "adapter_model.safetensors") && fs::exists(adapter / "adapter_config.json"));
  const double before = loss_of(weights), with_adapters = loss_of(run);
  EXPECT_LT(with_adapters, before - 0.01);
  EXPECT_NEAR(loss_of(merged), with_adapters, 1e-5 * with_adapters);
  EXPECT_NEAR(loss_of(run, 2, {"--tensor-parallel", "2"}), with_adapters, 1e-5 * with_adapters);
  std::fstream{weights / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary}
      .seekp(-4, std::ios::end)
      .write("\xff\xff\xff\xff", 4);
  auto anew = with(words, "--run.directory=", (folder() / "anew").string());
  for (const auto& command : {anew, Words{FLOTILLA_BINARY, "import", "hf", weights.string()},
                              Words{FLOTILLA_BINARY, "evaluate", weights.string(), "--data", text_file().string()}}) {
    const auto ended = tests::run(command);
    EXPECT_EQ(ended.code, 65) << ended.err;
    EXPECT_NE(the_error(ended).find("model.safetensors: tensor '"), std::string::npos) << ended.err;
    EXPECT_NE(the_error(ended).find("elements is not finite: nan; "), std::string::npos) << ended.err;
  }
  const auto none = tests::run({FLOTILLA_BINARY, "export", "hf", base().string(), "--adapter", "-o", (folder() / "none").string()});
  EXPECT_EQ(none.code, 65);
  EXPECT_NE(the_error(none).find("was trained without LoRA and has no adapter"), std::string::npos);
}

}  // namespace
}  // namespace flotilla::tests
