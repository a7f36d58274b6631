// What runtimes and devices do that holds published runs up: kernels that are not fused, what is computed again, exponentials, networks.
#include <gtest/gtest.h>

#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/files/published_runs.hpp"
#include "flotilla/published/comparison.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla {
namespace {

/// A GPT of 24 blocks on a node of eight H100.
const std::string whole_run = R"({"id": "one", "hardware": {"device_type": "H100-SXM5-80", "devices": 8, "devices_per_node": 8},
  "runtime": "torchtitan", "model": {"family": "gpt3", "layers": 24, "hidden": 4096, "heads": 32, "vocabulary": 50304},
  "parallel": {"tensor": 1, "data": 8, "zero": 3}, "batch": {"global_sequences": 16, "microbatch": 2},
  "sequence_length": 2048, "precision": "bf16", "measured": {"iteration_seconds": 1}, "complete": true})";

class Mechanisms : public testing::Test {
 protected:
  published::Run changed(const std::string& from, const std::string& to) {
    std::string run = whole_run;
    run.replace(run.find(from), from.size(), to);
    const auto file = folder_.path() / "made_up.json";
    std::ofstream{file} << R"({"format": "published-runs", "version": 1, "source": {}, "runs": [)" << run << "]}";
    return files::read_published_runs(file).at(0);
  }
  published::Run plain() { return changed("one", "one"); }
  double seconds(const published::Run& run) {
    const auto comparison = published::compare(run, catalogue_);
    EXPECT_TRUE(comparison.is_forecast()) << comparison.reason;
    return comparison.forecast.value;
  }
  program::LayerKernels kernels(const published::Run& run) { return published::express(run, catalogue_).run->runtime.layers->kernels_half; }

  tests::TemporaryFolder folder_;
  cluster::Catalogue catalogue_ = files::built_in_catalogue();
};

/// Of the seven products of a Llama's block torchtitan repeats those of keys, output and up; full recomputation all but the last.
TEST_F(Mechanisms, TorchtitanRepeatsEverySecondProduct) {
  published::Run run = changed("gpt3", "llama");
  const double none = seconds(run);
  run.parallel.recompute = "selective (per op)";
  const double other = seconds(run);
  run.parallel.recompute = "full";
  EXPECT_GT(other, 1.04 * none);
  EXPECT_LT(other, none + 0.8 * (seconds(run) - none));
}

TEST_F(Mechanisms, CompiledStepsMoveLess) {
  published::Run run = plain();
  const double eager = seconds(run);
  run.parallel.compiled = true;
  EXPECT_LT(seconds(run), 0.97 * eager);
}

/// Megatron-LM 1.1.5 runs mask, softmax, activation and dropout one by one unless its options say otherwise.
TEST_F(Mechanisms, NothingIsFusedInMegatrons115) {
  published::Run fused = changed("torchtitan", "megatron-deepspeed"),
                 old = changed("torchtitan", "megatron-deepspeed (Megatron-LM v1.1.5 3D)");
  fused.precision = old.precision = "fp16";
  EXPECT_FALSE(fused.unfused);
  EXPECT_GT(seconds(old), 1.1 * seconds(fused));
}

/// JAX-Toolbox's rows name models of configurations that say what is computed again and that attention keeps its scores.
TEST_F(Mechanisms, PaxmlRunsHaveTheirConfigurations) {
  const auto of = [&](int hidden, const std::string& runtime) {
    return changed("\"torchtitan\", \"model\": {\"family\": \"gpt3\", \"layers\": 24, \"hidden\": 4096",
                   "\"" + runtime + "\", \"model\": {\"family\": \"gpt3\", \"layers\": 24, \"hidden\": " + std::to_string(hidden));
  };
  EXPECT_EQ(of(768, "paxml (JAX/XLA)").parallel.recompute, "none");
  EXPECT_EQ(of(4096, "paxml (JAX/XLA)").parallel.recompute, "selective");
  EXPECT_EQ(of(12288, "paxml (JAX/XLA)").parallel.recompute, "full");
  EXPECT_EQ(of(4096, "maxtext (JAX/XLA)").parallel.recompute, "none");
  const double xla = seconds(of(4096, "paxml (JAX/XLA)")), engine = seconds(of(4096, "paxml (JAX/XLA) + Transformer Engine"));
  EXPECT_GT(xla, 1.02 * engine) << "XLA's softmax reads scores more often";
  EXPECT_GT(kernels(of(4096, "paxml (JAX/XLA)")).score_passes_forward, 0);
}

/// Members of a tensor-parallel group read what was gathered and write what will be summed whole; they share rows between products alone.
TEST_F(Mechanisms, SharedTokensAreMovedWholeAroundProducts) {
  published::Run run = changed("\"tensor\": 1, \"data\": 8", "\"tensor\": 8, \"data\": 1");
  const double replicated = seconds(run);
  run.parallel.sequence_parallel = true;
  const double shared = seconds(run);
  EXPECT_LT(shared, replicated);
  EXPECT_GT(shared, 0.88 * replicated) << "a few rows are shared, not all that moves";
}

/// DeepSpeed of 2021 gathered a layer's weights when it came to the layer.
TEST_F(Mechanisms, WeightsNotGatheredAheadAreWaitedFor) {
  const double ahead = seconds(changed("torchtitan", "transformers + deepspeed"));
  EXPECT_GT(seconds(changed("torchtitan", "huggingface-trainer + deepspeed")), 1.01 * ahead);
}

/// A scale for each row or block of an operand costs products something of FP8's rate.
TEST_F(Mechanisms, FinerScalesOfNarrowProductsCost) {
  const auto of = [&](const std::string& precision) { return seconds(changed("bf16", precision)); };
  const double tensorwise = of("float8 tensorwise"), rowwise = of("float8 rowwise");
  EXPECT_GT(rowwise, 1.05 * tensorwise);
  EXPECT_LT(rowwise, of("bf16"));
  const auto speed = [&](const std::string& precision) {
    return published::express(changed("bf16", precision), catalogue_).run->runtime.layers->narrow->speed;
  };
  EXPECT_LT(speed("FP8-MX"), speed("FP8-CS"));
}

/// Blackwell's products became twice as fast, its exponentials did not; those of Blackwell Ultra did.
TEST_F(Mechanisms, ExponentialsHoldUpAttentionOnBlackwell) {
  const auto share = [&](const std::string& device) {
    published::Run run = changed("H100-SXM5-80", device);
    run.runtime = "megatron-core";
    return kernels(run).attention_share;
  };
  EXPECT_LT(share("GB200"), 0.9 * share("H100-SXM5-80"));
  EXPECT_GT(share("GB300"), 1.1 * share("GB200"));
}

/// GPUs reach Omni-Path cards through their host.
TEST_F(Mechanisms, OmniPathCarriesLessThanItsCards) {
  const auto rate = [&](const std::string& network) {
    const auto run = changed("\"devices_per_node\": 8", "\"devices_per_node\": 4, \"interconnect\": \"4 x " + network + " 100 Gbit/s\"");
    return published::express(run, catalogue_).run->profile.links.back().pieces.back().bandwidth.value;
  };
  EXPECT_DOUBLE_EQ(rate("Omni-Path"), 0.5 * rate("InfiniBand"));
}

/// The page of Jean Zay's runs says of two tables that ZeRO's stage 3 ran in Megatron-LM 1.1.5.
TEST_F(Mechanisms, TablesOfOffloadAreOfStage3) {
  const auto run = changed("\"complete\"", "\"section\": \"**Performance** / **With Offload off**\", \"complete\"");
  EXPECT_EQ(run.parallel.sharding, published::Sharding::parameters);
  EXPECT_TRUE(run.unfused);
  EXPECT_FALSE(run.parallel.offload);
}

}  // namespace
}  // namespace flotilla
