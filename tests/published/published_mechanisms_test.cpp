// What runtimes and devices do that holds published runs up: kernels that are not fused, what is computed again, exponentials, networks.
#include <gtest/gtest.h>

#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/files/published_runs.hpp"
#include "flotilla/published/comparison.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::published_mechanisms_test {
namespace {

/// A GPT of 24 blocks on a node of eight H100.
const std::string whole_run = R"({"id": "one", "hardware": {"device_type": "H100-SXM5-80", "devices": 8, "devices_per_node": 8},
  "runtime": "torchtitan", "model": {"family": "gpt3", "layers": 24, "hidden": 4096, "heads": 32, "vocabulary": 50304},
  "parallel": {"tensor": 1, "data": 8, "zero": 3}, "batch": {"global_sequences": 16, "microbatch": 2},
  "sequence_length": 2048, "precision": "bf16", "measured": {"iteration_seconds": 1}, "complete": true})";

class Mechanisms : public testing::Test {
 protected:
  published::Run changed(const std::string& from, const std::string& to) { return changed({{from, to}}); }
  published::Run changed(const std::vector<std::pair<std::string, std::string>>& words) {
    std::string run = whole_run;
    for (const auto& [from, to] : words) run.replace(run.find(from), from.size(), to);
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
  /// Of tensors, at the peak of the fullest device.
  double gigabytes(published::Run run) {
    run.measured.memory = Bytes{1};
    run.measured.measure = published::MemoryMeasure::allocated;
    const auto comparison = published::compare(run, catalogue_);
    EXPECT_TRUE(comparison.memory) << comparison.reason;
    return comparison.memory ? static_cast<double>(comparison.memory->count) / 1e9 : 0;
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

/// It keeps a block's input, attention's output, queries, values, gate and down: 5 h + f elements of a token where 8 h + 3 f are in use.
TEST_F(Mechanisms, TorchtitanKeepsEverySecondProduct) {
  published::Run run = changed({{"gpt3", "llama"}, {"\"vocabulary\"", "\"feed_forward\": 11008, \"vocabulary\""}});
  const double none = gigabytes(run);
  run.parallel.recompute = "selective (every other op)";
  const double left_out = 24.0 * 2 * 2048 * (3 * 4096 + 2 * 11008) * 2 / 1e9;
  EXPECT_NEAR(none - gigabytes(run), left_out, 0.02 * left_out);
}

/// PyTorch's cross entropy holds three values of a logit in fp32, one kernel each way the logit and its gradient as they came.
TEST_F(Mechanisms, LossesOfOneKernelKeepLogitsAsTheyCame) {
  published::Run run = plain();
  const double eager = gigabytes(run);
  run.one_kernel_loss = true;
  const double saved = 2.0 * 2048 * 50304 * (3 * 4 - 2 * 2) / 1e9;
  EXPECT_NEAR(eager - gigabytes(run), saved, 0.02 * saved);

  const auto of_page = [&](const std::string& runtime, const std::string& month, const std::string& compile) {
    const std::string file = R"(, "file": "benchmarks/llama3_h100_)" + month + R"(_titan.md")";
    return changed({{R"("torchtitan")", "\"" + runtime + "\"" + file}, {R"("zero": 3)", R"("zero": 3, "compile": )" + compile}})
        .one_kernel_loss;
  };
  EXPECT_TRUE(of_page("torchtitan", "202506", "true"));
  EXPECT_FALSE(of_page("torchtitan", "202506", "false"));
  EXPECT_FALSE(of_page("torchtitan", "202412", "true"));
  EXPECT_TRUE(of_page("pytorch-fsdp (composer, llm-foundry)", "202506", "false"));
}

/// Blocks that recompute are spread evenly: half of them repeat half of what all repeat, and keep the rest.
TEST_F(Mechanisms, SomeBlocksRecompute) {
  published::Run run = plain();
  const double none = seconds(run), kept = gigabytes(run);
  run.parallel.recompute = "full";
  const double all = seconds(run), least = gigabytes(run);
  run.parallel.recomputed_blocks = 0.5;
  EXPECT_NEAR(seconds(run) - none, 0.5 * (all - none), 0.01 * none);
  EXPECT_NEAR(kept - gigabytes(run), 0.5 * (kept - least), 0.1 * (kept - least));
}

/// IBM's report of its runs has FLOPs done and needed, which tell how many blocks recompute.
TEST_F(Mechanisms, IbmsModelsRecomputeSomeBlocksOrAll) {
  const auto of = [&](const std::string& hidden) {
    return changed({{"\"zero\": 3}", R"json("zero": 3, "recompute": "selective (some blocks)"})json"}, {"4096", hidden}}).parallel;
  };
  EXPECT_EQ(of("5120").recompute, "full");
  EXPECT_EQ(of("5120").recomputed_blocks, 0.5);
  EXPECT_EQ(of("8192").recompute, "full");
  EXPECT_EQ(of("8192").recomputed_blocks, 1);
}

/// Gathers and sums beside passes hold a part of the device's multiprocessors while NVLink carries them.
TEST_F(Mechanisms, CollectivesBesidePassesTakeMultiprocessors) {
  const auto without = [&](const published::Run& run) {
    return published::compare(run, catalogue_, [](program::LayerRuntime& layers) { layers.collective_share = 0; }).forecast.value;
  };
  const published::Run inside = plain(), between = changed("\"devices_per_node\": 8", "\"devices_per_node\": 4");
  EXPECT_GT(seconds(inside), 1.005 * without(inside));
  EXPECT_LT(seconds(inside), 1.1 * without(inside));
  EXPECT_DOUBLE_EQ(seconds(between), without(between)) << "network cards carry less";
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

/// A parameter's gradient takes two bytes less where NVIDIA's recipes sum gradients in half precision.
TEST_F(Mechanisms, RecipesSumGradientsInHalf) {
  const auto of = [&](const std::string& runtime) {
    return *published::express(changed("torchtitan", runtime), catalogue_).run->runtime.layers;
  };
  const auto plain = of("megatron-core"), recipe = of("megatron-core (Megatron-Bridge)");
  EXPECT_EQ(plain.in_bf16.gradients - recipe.in_bf16.gradients, Bytes{2});
  EXPECT_EQ(recipe.gradient_half, Bytes{2});
  EXPECT_EQ(recipe.in_fp16, plain.in_fp16);
  EXPECT_EQ(plain.added_half, Bytes{8});
  EXPECT_EQ(recipe.added_half, Bytes{4}) << "read and written";
  const published::Run run = changed("torchtitan", "megatron-core (Megatron-Bridge)");
  const auto in_fp32 = published::compare(run, catalogue_, [](program::LayerRuntime& layers) { layers.added_half = {8}; });
  EXPECT_LT(seconds(run), in_fp32.forecast.value);
}

/// Transformer Engine keeps the inputs of FP8's products as converted: of 34 bytes of a GPT's token and column 5 less, and attention's
/// output once more. Torchao keeps them as they came.
TEST_F(Mechanisms, ConvertedInputsOfProductsTakeLess) {
  const auto gigabytes_in = [&](const std::string& runtime, const std::string& precision) {
    published::Run run = changed("torchtitan", runtime);
    run.precision = precision;
    return gigabytes(run);
  };
  const double half = gigabytes_in("megatron-core", "bf16"), narrow = gigabytes_in("megatron-core", "FP8-CS");
  const double tokens_by_columns = 2.0 * 2048 * 4096 * 24 / 1e9;
  EXPECT_NEAR(half - narrow, 5 * tokens_by_columns, 0.2 * tokens_by_columns);
  EXPECT_DOUBLE_EQ(gigabytes_in("torchtitan", "float8 tensorwise"), gigabytes_in("torchtitan", "bf16"));
}

/// Activations that wait in the host's memory come back for their own block's backward pass.
TEST_F(Mechanisms, ActivationsInTheHostsMemoryTakeNone) {
  published::Run run = plain();
  const double none = gigabytes(run);
  run.parallel.blocks_in_host = 8;
  const double some = gigabytes(run);
  run.parallel.blocks_in_host = 16;
  EXPECT_LT(some, 0.9 * none);
  EXPECT_NEAR(some - gigabytes(run), none - some, 0.2 * (none - some));
}

/// A block's copy runs beside the passes up to the next such block's, on a stream of its own. DeepSpeed's passes wait for it.
TEST_F(Mechanisms, CopiesToTheHostShowWherePassesAreShorter) {
  published::Run run = plain();
  const double none = seconds(run);
  const auto with = [&](int blocks) {
    run.parallel.blocks_in_host = blocks;
    return seconds(run);
  };
  EXPECT_DOUBLE_EQ(with(2), none) << "12 passes hide a copy";
  EXPECT_GT(with(24), 1.2 * none) << "PCIe 5.0 takes longer than a pass";
  run.parallel.blocking_copies = true;
  const double some = with(2) - none, bytes = 2 * 2 * 2048 * 34.0 * 4096, rate = 0.84 * 6.3e10;
  EXPECT_NEAR(some, 2 * bytes / rate, 0.2 * some) << "there and back";
  EXPECT_NEAR(with(4) - none, 2 * some, 1e-6);
}

/// A member of a tensor-parallel group copies its part of an input that all members hold.
TEST_F(Mechanisms, MembersCopyPartsOfCheckpoints) {
  const auto copied = [&](int tensor) {
    published::Run run = changed("\"tensor\": 1, \"data\": 8", tensor == 1 ? "\"tensor\": 1, \"data\": 8" : "\"tensor\": 4, \"data\": 2");
    run.parallel.recompute = "full";
    const double none = seconds(run);
    run.parallel.blocks_in_host = 24;
    run.parallel.blocking_copies = true;
    return (seconds(run) - none) / (run.global_batch / run.parallel.data);
  };
  EXPECT_NEAR(copied(1), 4 * copied(4), 0.01 * copied(1));
}

TEST_F(Mechanisms, ADeviceWithoutAKnownLinkToItsHostIsNotForecast) {
  published::Run run = changed("H100-SXM5-80", "MI300X");
  ASSERT_TRUE(published::express(run, catalogue_).run);
  run.parallel.blocks_in_host = 1;
  EXPECT_NE(published::express(run, catalogue_).reason.find("its host"), std::string::npos);
}

/// One communicator of NCCL uses one or two of a node's Omni-Path cards.
TEST_F(Mechanisms, CommunicatorsReachLessOverOmniPath) {
  const auto rate = [&](const std::string& device, const std::string& network) {
    const auto run =
        changed({{"H100-SXM5-80", device}, {"\"devices_per_node\": 8", "\"devices_per_node\": 4, \"interconnect\": \"" + network + "\""}});
    return published::express(run, catalogue_).run->runtime.layers->reduction_rate.value;
  };
  EXPECT_DOUBLE_EQ(rate("V100-SXM2-32", "4 x Omni-Path 100 Gbit/s"), 54.2e9 / 8);
  EXPECT_DOUBLE_EQ(rate("A100-SXM4-80", "4 x Omni-Path 100 Gbit/s"), 40.5e9 / 8);
  EXPECT_DOUBLE_EQ(rate("V100-SXM2-32", "4 x InfiniBand 100 Gbit/s"), 0);
}

TEST_F(Mechanisms, PresetsAndScriptsSayWhoseActivationsWaitInTheHost) {
  const auto bridge = [&](const std::string& device, const std::string& precision) {
    return changed({{"H100-SXM5-80", device},
                    {"bf16", precision},
                    {"torchtitan", "megatron-core (Megatron-Bridge)"},
                    {"\"layers\": 24", "\"layers\": 80"}})
        .parallel.blocks_in_host;
  };
  EXPECT_EQ(bridge("GB200", "FP8-CS"), 40);
  EXPECT_EQ(bridge("GB300", "bf16"), 30);
  EXPECT_EQ(bridge("H100-SXM5-80", "bf16"), 0);
  EXPECT_EQ(
      changed("\"runtime\": \"torchtitan\"", R"("section": "**With Offload off**", "runtime": "megatron-lm")").parallel.blocks_in_host, 24);
}

/// A table of Jean Zay's page on the bucket of ZeRO's sums names the stage in its heading alone.
TEST_F(Mechanisms, TablesOfBucketsAreOfStage1) {
  const auto run = changed("\"zero\": 3}", R"("reduce_bucket": "5e8"}, "section": "**zero_stage:1 + reduce_bucket_size** / 3D")");
  EXPECT_EQ(run.parallel.sharding, published::Sharding::optimizer);
}

}  // namespace
}  // namespace flotilla::published_mechanisms_test
