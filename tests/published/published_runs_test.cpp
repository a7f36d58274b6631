// Published runs as files say them, as plans, and beside their forecasts.
#include <gtest/gtest.h>

#include "flotilla/base/error.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/files/published_runs.hpp"
#include "flotilla/published/comparison.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla {
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
  std::vector<published::Run> read(const std::string& runs) {
    const auto file = folder_.path() / "made_up.json";
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
  const std::string core = "\"runtime\": \"megatron-core\",";
  const auto workspaces = [&](const std::string& more) {
    return published::express(changed(R"("runtime": "megatron-deepspeed",)", core + more), catalogue_).run->runtime.layers->workspaces;
  };
  EXPECT_EQ(workspaces(" \"deterministic\": true,") - workspaces(""), Bytes{48 << 20});
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
}  // namespace flotilla
