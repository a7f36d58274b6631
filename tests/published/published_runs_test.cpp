// Published runs as files say them, as plans, and beside their forecasts.
#include <gtest/gtest.h>

#include "flotilla/base/error.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/files/published_runs.hpp"
#include "flotilla/published/comparison.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::published_runs_test {
namespace {

using published::Comparison;

std::string file_with(const std::string& run) {
  return R"({"format": "published-runs", "version": 1, "source": {}, "runs": [)" + run + "]}";
}

/// 24 blocks on two nodes of four V100, 2 x 2 x 2.
const std::string whole_run = R"({"id": "one", "hardware": {"device_type": "V100-SXM2-32", "devices": 8, "devices_per_node": 4,
  "interconnect": "NVLink in the node, 4 x Omni-Path 100 Gbit/s a node"}, "runtime": "megatron-deepspeed",
  "model": {"family": "gpt2", "layers": 24, "hidden": 1024, "heads": 16, "feed_forward": 4096, "vocabulary": 50257, "positions": 1024},
  "parallel": {"tensor": 2, "pipeline": 2, "data": 2, "zero": 1, "recompute": "full"},
  "batch": {"global_sequences": 32, "microbatch": 4, "microbatches": 4}, "sequence_length": 1024, "precision": "fp16",
  "measured": {"iteration_seconds": 0.9, "peak_memory_gb": 9.5}, "complete": true})";

class PublishedRuns : public testing::Test {
 protected:
  std::vector<published::Run> read(const std::string& runs, const std::string& source = "made_up") {
    const auto file = folder_.path() / (source + ".json");
    std::ofstream{file} << file_with(runs);
    return files::read_published_runs(file);
  }
  published::Run changed(const std::string& from, const std::string& to) {
    std::string run = whole_run;
    run.replace(run.find(from), from.size(), to);
    return read(run).at(0);
  }
  std::string reason(const published::Run& run) { return published::express(run, catalogue_).reason; }

  tests::TemporaryFolder folder_;
  cluster::Catalogue catalogue_ = files::built_in_catalogue();
};

TEST_F(PublishedRuns, AreReadWithTheNetworkInWords) {
  const published::Run run = read(whole_run).at(0);
  EXPECT_EQ(run.source, "made_up");
  EXPECT_EQ(run.hardware.network_cards, 4);
  EXPECT_DOUBLE_EQ(run.hardware.network_card.value, 12.5e9);
  EXPECT_EQ(run.hardware.pair_links, 0);
  EXPECT_EQ(run.parallel.sharding, published::Sharding::optimizer);
  EXPECT_EQ(run.measured.memory, Bytes{9'500'000'000});
  EXPECT_TRUE(run.complete);
}

TEST_F(PublishedRuns, BecomePlansInMegatronsOrderOfRanks) {
  const auto expression = published::express(read(whole_run).at(0), catalogue_);
  ASSERT_TRUE(expression.run) << expression.reason;
  const plan::Plan& plan = expression.run->plan;
  EXPECT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].last_layer, 13);
  EXPECT_EQ(plan.stages[0].replicas[1].devices, (std::vector{Rank{2}, Rank{3}}));
  EXPECT_EQ(plan.stages[1].replicas[0].devices, (std::vector{Rank{4}, Rank{5}}));
  EXPECT_TRUE(plan.shard_optimizer);
  EXPECT_EQ(plan.model.vocabulary % 256, 0) << "padded to a multiple of 128 x the tensor-parallel degree";
  EXPECT_EQ(expression.run->profile.devices[4].host == expression.run->profile.devices[3].host, false) << "four devices in a node";
}

TEST_F(PublishedRuns, WithPartsOfSequencesAreShorterSequencesOnMoreReplicas) {
  published::Run run = changed(R"("data": 2)", R"("context": 2, "data": 1)");
  run.runtime = "megatron-core";
  const auto expression = published::express(run, catalogue_);
  ASSERT_TRUE(expression.run) << expression.reason;
  EXPECT_EQ(expression.run->plan.length, 512);
  EXPECT_EQ(expression.run->plan.global_batch, 64);
  EXPECT_EQ(expression.run->plan.stages[0].replicas.size(), 2u);
  EXPECT_EQ(expression.run->runtime.layers->context, 2);
}

published::Run of_tensor_group(published::Run run, int tensor) {
  run.hardware.device_type = "A100-80";
  run.hardware.devices = run.hardware.per_node = run.parallel.tensor = tensor;
  run.parallel.pipeline = run.parallel.data = 1;
  run.parallel.sharding = published::Sharding::none;
  run.model.hidden = 8192;
  run.model.heads = 64;
  run.model.feed_forward = 32768;
  run.model.blocks = 4;
  return run;
}

/// Four links to each of three others are all twelve of an A100: a group of four stays on its board, one of eight passes PCIe.
TEST_F(PublishedRuns, HaveBoardsWhereTheirNodesHaveNoSwitch) {
  const auto seconds = [&](const published::Run& run) { return published::compare(run, catalogue_).forecast.value; };
  published::Run run = changed("NVLink in the node", "NVLink 4 in the node");
  EXPECT_EQ(run.hardware.pair_links, 4);
  for (const int tensor : {4, 8}) {
    run = of_tensor_group(run, tensor);
    published::Run with_switch = run;
    with_switch.hardware.pair_links = 0;
    const auto layers = *published::express(run, catalogue_).run->runtime.layers;
    EXPECT_EQ(layers.board, 4);
    EXPECT_NEAR(layers.between_boards.value, 100e9, 1);
    if (tensor == 4) {
      EXPECT_EQ(seconds(run), seconds(with_switch));
    } else {
      EXPECT_GT(seconds(run), 1.02 * seconds(with_switch));
    }
  }
}

/// A host that waits for every kernel adds its time to the device's; four kernels more where the fused softmax does not take the scores;
/// heads of 108 columns go without matrix units.
TEST_F(PublishedRuns, TakeLongerWhereHostOrShapesHoldKernelsUp) {
  const auto seconds = [&](const published::Run& run) { return published::compare(run, catalogue_).forecast.value; };
  const published::Run plain = of_tensor_group(read(whole_run).at(0), 8);
  published::Run waits = plain;
  waits.waits_for_kernels = true;
  const double host = 8 * 4 * (28 + 28 + 36) * 35e-6;  // microbatches, blocks, kernels of their passes
  EXPECT_NEAR(seconds(waits) - seconds(plain), host, 0.2 * host);
  published::Run steps = plain;
  steps.microbatch = 1;
  published::Run odd = steps, even = steps;
  odd.model.heads = 8 * 6;  // six matrices of scores on a device
  even.model.heads = 8 * 8;
  odd.model.hidden = even.model.hidden = 6144;
  EXPECT_GT(seconds(odd), 1.02 * seconds(even)) << "though it has fewer scores";
  published::Run unaligned = plain, aligned = plain;
  unaligned.model.hidden = aligned.model.hidden = 6912;
  unaligned.model.heads = 64;  // 108 columns
  aligned.model.heads = 72;    // 96
  EXPECT_GT(seconds(unaligned), 1.02 * seconds(aligned)) << "though it has fewer scores";
}

/// Megatron-Core's test cases have their options in their names: 8 bytes more of a logit, and gradients of all micro-batches' logits.
TEST_F(PublishedRuns, KeepLogitsAsTheirTestCasesSay) {
  const auto bytes = [&](const std::string& name) {
    published::Run run = changed(R"("id": "one")", R"("id": "one", "file": ")" + name + "\"");
    run.runtime = "megatron-core";
    run.measured.measure = published::MemoryMeasure::allocated;
    run.measured.last_stage = true;
    const Comparison c = published::compare(run, catalogue_);
    EXPECT_TRUE(c.memory) << c.reason;
    return static_cast<double>(c.memory->count);
  };
  const double logits = 4.0 * 1024 * 50432 / 2, plain = bytes("a_case");
  EXPECT_NEAR(bytes("a_case_cross_entropy_loss_fusion") - plain, 8 * logits, 0.01 * plain);
  EXPECT_NEAR(bytes("a_case_defer_embedding_wgrad_compute") - plain, 2 * 3 * logits, 0.01 * plain);
}

TEST_F(PublishedRuns, SayWhyTheyCannotBeExpressed) {
  EXPECT_EQ(reason(changed(R"("complete": true)", R"("complete": false)")), "incomplete: something had to be guessed");
  EXPECT_EQ(reason(changed(R"("precision": "fp16")", R"("precision": "amp")")), "precision amp");
  EXPECT_EQ(reason(changed(R"("precision": "fp16")", R"("precision": "fp8")")), "products of FP8 on 'V100-32'");
  EXPECT_EQ(reason(changed(R"("runtime": "megatron-deepspeed")", R"("runtime": "neox")")), "runtime neox");
  EXPECT_EQ(reason(changed("V100-SXM2-32", "TPU-v4")), "device TPU-v4");
  EXPECT_EQ(reason(changed(R"("heads": 16)", R"("heads": 16, "experts": 8)")), "experts");
  EXPECT_EQ(reason(changed(R"("data": 2)", R"("data": 3)")), "degrees that do not make up the devices");
}

/// One block's products in FP8 take half the time at most, and their conversion something.
TEST_F(PublishedRuns, HaveNarrowProductsWhereTheyAndTheDeviceSaySo) {
  const auto seconds = [&](const std::string& precision) {
    published::Run run = changed("V100-SXM2-32", "H100-SXM5-80");
    run.runtime = "megatron-core";
    run.model.hidden = 8192;
    run.model.feed_forward = 32768;
    run.precision = precision;
    const Comparison c = published::compare(run, catalogue_);
    EXPECT_TRUE(c.is_forecast()) << c.reason;
    return c.forecast.value;
  };
  const double bf16 = seconds("bf16"), delayed = seconds("fp8"), current = seconds("FP8-CS");
  EXPECT_LT(delayed, current) << "a scale of the tensor's own largest value needs a pass more";
  EXPECT_LT(current, bf16);
  EXPECT_GT(delayed, bf16 / 2);
}

TEST_F(PublishedRuns, StandInOneNodeWhereLinksJoinSeveral) {
  published::Run run = changed("V100-SXM2-32", "GB200");
  run.runtime = "megatron-core";
  run.precision = "bf16";
  const auto expression = published::express(run, catalogue_);
  ASSERT_TRUE(expression.run) << expression.reason;
  const auto& devices = expression.run->profile.devices;
  EXPECT_EQ(devices.front().host, devices.back().host) << "72 devices are one NVLink domain, though four are in a tray";
}

TEST_F(PublishedRuns, OneThatCannotBeReadLeavesTheOthers) {
  std::string broken = whole_run;
  broken.replace(broken.find("\"tensor\": 2"), 11, "\"tensor\": []");
  const auto runs = read(broken + "," + whole_run);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_NE(runs[0].issue.find("/runs/0/parallel/tensor"), std::string::npos) << runs[0].issue;
  EXPECT_FALSE(reason(runs[0]).empty());
  EXPECT_EQ(reason(runs[1]), "");
}

TEST_F(PublishedRuns, OfAnotherFormatAreRefused) {
  const auto file = folder_.path() / "other.json";
  std::ofstream{file} << R"({"format": "flotilla-plan", "version": 1})";
  EXPECT_THROW(files::read_published_runs(file), Error);
  EXPECT_THROW(files::read_published_folder(folder_.path()), Error) << "no file of the format is in it";
}

/// Longer sequences and more of them take longer, a sharded optimizer takes less memory.
TEST_F(PublishedRuns, AreForecastByTheirRuntime) {
  const Comparison plain = published::compare(changed(R"("zero": 1)", R"("zero": 0)"), catalogue_);
  const Comparison sharded = published::compare(read(whole_run).at(0), catalogue_);
  const Comparison twice = published::compare(changed(R"("global_sequences": 32)", R"("global_sequences": 64)"), catalogue_);
  ASSERT_TRUE(plain.is_forecast() && sharded.is_forecast() && twice.is_forecast()) << plain.reason << sharded.reason << twice.reason;
  EXPECT_GT(twice.forecast.value, 1.5 * sharded.forecast.value);
  EXPECT_LT(*sharded.memory, *plain.memory);
}

/// The golden values' cases of Megatron-Core: name, environment and attention that follow.
TEST_F(PublishedRuns, OfGoldenValuesKeepScoresWhereTheirPeaksSaySo) {
  const auto attention = [&](const std::string& id, const std::string& more) {
    std::string run = whole_run;
    run.replace(run.find("one"), 3, id);
    run.replace(run.find("\"complete\""), 0, more);
    const auto file = folder_.path() / "megatron_core_golden_made_up.json";
    std::ofstream{file} << file_with(run);
    return files::read_published_runs(file).at(0).parallel.attention;
  };
  EXPECT_EQ(attention("gpt3_mcore_te_tp1", ""), "flash");
  EXPECT_EQ(attention("gpt3_mcore_tp1", ""), "unfused");
  EXPECT_EQ(attention("gpt3_7b_tp1", ""), "flash");
  EXPECT_EQ(attention("gpt3_mcore_te_tp1", R"("environment": "lts_dracooci", "deterministic": true, )"), "unfused");
  EXPECT_EQ(attention("gpt3_mcore_te_tp1", R"("environment": "lts_dracooci", )"), "flash");
  EXPECT_EQ(read(whole_run).at(0).parallel.attention, "") << "of another source nothing is known";
}

/// The tools of a run see its process, whose allocator keeps more than the tensors, but never more than the device has.
TEST_F(PublishedRuns, SeenFromOutsideHoldMoreThanTheirTensors) {
  const auto memory = [&](const std::string& key, double value) {
    return *published::compare(changed("\"peak_memory_gb\": 9.5", "\"" + key + "\": " + std::to_string(value)), catalogue_).memory;
  };
  const Bytes tensors = memory("peak_allocated_bytes", 9e9), process = memory("peak_memory_gb", 9);
  EXPECT_GT(static_cast<double>(process.count), 1.2 * static_cast<double>(tensors.count));
  EXPECT_LE(static_cast<double>(process.count), cluster::find(catalogue_, "V100-SXM2-32")->memory.value);
}

TEST_F(PublishedRuns, ThatMustRepeatTakeLargerWorkspaces) {
  const auto workspaces = [&](const std::string& device, bool repeats) {
    published::Run run = changed("V100-SXM2-32", device);
    run.runtime = "megatron-core";
    run.deterministic = repeats;
    return published::express(run, catalogue_).run->runtime.layers->workspaces;
  };
  const Bytes usual{8519680}, more{32 << 20}, usual_library{4 << 20};
  EXPECT_EQ(workspaces("A100-80", true) - workspaces("A100-80", false), 2 * (more - usual));
  const Bytes larger = 2 * (more - usual) + more - usual_library;
  EXPECT_EQ(workspaces("H100-80", false) - workspaces("A100-80", false), larger) << "recommended from Hopper on";
  EXPECT_EQ(workspaces("H100-80", true), workspaces("H100-80", false));
}

/// Optimizers by what sources' code says: InternEvo flattens gradients, its FSDP does not; Megatron-LM of 2021 keeps them in fp32.
TEST_F(PublishedRuns, KeepWhatTheirOptimizersNeed) {
  published::Run run = changed("V100-SXM2-32", "A100-80");
  run.runtime = "internevo";
  const auto temporaries = [&] { return published::express(run, catalogue_).run->runtime.layers->update_temporaries_half; };
  EXPECT_EQ(temporaries(), Bytes{14});
  run.parallel.sharding = published::Sharding::parameters;
  EXPECT_EQ(temporaries(), Bytes{12});
  run.runtime = "megatron-lm";
  const auto parameter = [&] { return published::express(run, catalogue_).run->runtime.layers->in_fp16.total(); };
  EXPECT_EQ(parameter(), Bytes{18});
  run.gradients_stay = true;
  EXPECT_EQ(parameter(), Bytes{22});
}

/// A full device has blocks that its allocator cannot give back: 8 % of the tensors' bytes with Megatron-DeepSpeed.
TEST_F(PublishedRuns, GoOutOfMemoryBeforeTensorsFillTheDevice) {
  published::Run run = changed(R"("hidden": 1024)", R"("hidden": 8192)");
  run.model.feed_forward = 32768;
  const auto fits = [&](double share) {
    auto catalogue = catalogue_;
    for (auto& entry : catalogue)
      if (entry.name == "V100-32") entry.memory.value = 1e15;
    const double outside = static_cast<double>(published::compare(run, catalogue).memory->count);  // 1.2 times the tensors, and the process
    for (auto& entry : catalogue)
      if (entry.name == "V100-32") entry.memory.value = share * outside;
    return published::compare(run, catalogue).fits;
  };
  EXPECT_TRUE(fits(1));
  EXPECT_TRUE(fits(0.93));
  EXPECT_FALSE(fits(0.87)) << "more than all tensors";
}

/// Where a rank's peak is what stays after the step, peaks were counted anew after the passes: the run tells none.
TEST_F(PublishedRuns, TakeThePeakOfTheFullestRank) {
  const auto memory = [&](const std::string& ranks) {
    return changed("\"peak_memory_gb\": 9.5", "\"memory_per_rank\": {" + ranks + "}").measured.memory;
  };
  const std::string one = R"("0": {"allocated_mib": 100, "max_allocated_mib": 120})",
                    other = R"("1": {"allocated_mib": 100, "max_allocated_mib": 110})",
                    reset = R"("2": {"allocated_mib": 90, "max_allocated_mib": 90})";
  EXPECT_EQ(memory(one + "," + other), Bytes{120 << 20});
  EXPECT_FALSE(memory(one + "," + reset));
}

/// Of Megatron-Core's test cases with one expert a token, such group the products of experts as say so.
TEST_F(PublishedRuns, GroupExpertsAsTheirTestCasesDo) {
  const auto groups = [&](const std::string& file, int per_token) {
    const std::string member = "\"id\": \"one\"";
    std::string text = whole_run;
    const std::string heads = R"("heads": 16)", more = heads + R"(, "experts": 8, "top_k": )" + std::to_string(per_token);
    text.replace(text.find(heads), heads.size(), more);
    text.replace(text.find(member), member.size(), member + ", \"file\": \"" + file + "\"");
    return read(text, "megatron_core_golden_moe").at(0).groups_experts;
  };
  EXPECT_TRUE(groups("a_case_groupedGEMM", 1));
  EXPECT_FALSE(groups("a_case", 1));
  EXPECT_TRUE(groups("a_case", 2));
}

/// The names of Megatron-Core's cases say what shards weights, too, and which optimizer is not Adam.
TEST_F(PublishedRuns, NameTheirShardingAndOptimizer) {
  const auto case_of = [&](const std::string& file) {
    std::string text = whole_run;
    const std::string member = "\"id\": \"one\"";
    text.replace(text.find(member), member.size(), member + ", \"file\": \"" + file + "\"");
    return read(text, "megatron_core_golden_moe").at(0);
  };
  EXPECT_EQ(case_of("a_case").parallel.sharding, published::Sharding::optimizer);
  EXPECT_TRUE(case_of("a_case_8experts_etp1_ep4").parallel.whole_experts);
  EXPECT_EQ(case_of("a_case_tp2_zp_z3_resume").parallel.sharding, published::Sharding::parameters);
  EXPECT_EQ(reason(case_of("a_case")), "");
  EXPECT_EQ(reason(case_of("a_case_dist_muon")), "optimizer Muon");
}

TEST_F(PublishedRuns, StateVirtualStagesByTheirLayersToo) {
  const auto run = changed("\"zero\": 1", "\"zero\": 1, \"layers_per_virtual_stage\": 3");
  EXPECT_EQ(run.parallel.chunks, 4) << "24 blocks on 2 devices";
}

/// Experts: weights of all of them, work of those that a token goes through, and their exchange, which is slower between nodes.
TEST_F(PublishedRuns, WithExpertsKeepAllOfThemAndComputeSome) {
  const auto forecast = [&](int experts, int per_token, int group, int per_node = 8) {
    published::Run run = changed("V100-SXM2-32", "H100-SXM5-80");
    run.runtime = "megatron-core";
    run.precision = "bf16";
    run.hardware.per_node = per_node;
    run.model.hidden = 4096;
    run.model.feed_forward = 16384;
    run.parallel.pipeline = run.parallel.tensor = 1;
    run.parallel.data = 8;
    run.parallel.recompute = "none";
    run.model.experts = experts;
    run.model.experts_per_token = per_token;
    run.parallel.experts = group;
    run.microbatch = 32;  // products take longer than the host needs to start the kernels of eight experts
    run.global_batch = 1024;
    const Comparison c = published::compare(run, catalogue_);
    EXPECT_TRUE(c.is_forecast()) << c.reason;
    return c;
  };
  const auto dense = forecast(0, 1, 1), one = forecast(8, 1, 1), two = forecast(8, 2, 1), spread = forecast(8, 2, 8),
             apart = forecast(8, 2, 8, 1);
  const auto gigabytes = [](const Comparison& c) { return static_cast<double>(c.memory->count) / 1e9; };
  // 24 blocks, 7 experts more, of 2 x 4096 x 16384 each: 6 bytes of weight and gradient, and an eighth of 12.
  const double more = 24.0 * 7 * 2 * 4096 * 16384;
  EXPECT_GT(gigabytes(one) - gigabytes(dense), more * 6e-9);
  EXPECT_LT(gigabytes(spread), gigabytes(two) - 6e-9 * more * 0.9) << "eight replicas hold the experts once";
  EXPECT_GT(two.forecast.value, one.forecast.value * 1.2);
  EXPECT_LT(two.forecast.value, one.forecast.value * 3);
  EXPECT_GT(apart.forecast.value, spread.forecast.value * 1.05) << "between nodes";
}

TEST_F(PublishedRuns, WithExpertsTellWhenTheirGroupDoesNotDivideThem) {
  published::Run run = changed("\"heads\": 16", "\"heads\": 16, \"experts\": 6, \"top_k\": 2");
  run.runtime = "megatron-core";
  EXPECT_EQ(run.model.experts_per_token, 2);
  run.parallel.experts = 4;
  EXPECT_EQ(reason(run), "experts that do not divide by their group of replicas");
}

Comparison measured(const std::string& plan, double forecast, double seconds, double bar) {
  Comparison c;
  c.plan = plan;
  c.configuration = "one";
  c.forecast = {forecast};
  c.relative_error = bar;
  c.run.measured.iteration = Seconds{seconds};
  return c;
}

TEST(Statistics, CountErrorsCoverageAndRegret) {
  const std::vector<Comparison> runs{measured("a", 1.1, 1.0, 0.2), measured("b", 0.9, 1.2, 0.2), measured("c", 2.0, 2.0, 0.2)};
  std::vector<const Comparison*> all;
  for (const auto& run : runs) all.push_back(&run);
  const auto s = published::statistics("three", all);
  EXPECT_NEAR(*s.time_error_mean, (0.1 + 0.25 + 0) / 3, 1e-12);
  EXPECT_NEAR(*s.time_error_median, 0.1, 1e-12);
  EXPECT_NEAR(*s.time_error_worst, 0.25, 1e-12);
  EXPECT_NEAR(*s.coverage, 2.0 / 3, 1e-12);
  EXPECT_NEAR(*s.regret, 0.2, 1e-12) << "b has the best forecast, a was the best";
  EXPECT_FALSE(s.memory_error_mean);
}

TEST(Statistics, CountWhatWentOutOfMemory) {
  Comparison called, missed, wrong;
  called.run.measured.out_of_memory = missed.run.measured.out_of_memory = true;
  called.fits = wrong.fits = false;
  const auto s = published::statistics("memory", {&called, &missed, &wrong});
  EXPECT_EQ(s.out_of_memory, 2);
  EXPECT_EQ(s.out_of_memory_called, 1);
  EXPECT_EQ(s.out_of_memory_false, 1);
}

}  // namespace
}  // namespace flotilla::published_runs_test
