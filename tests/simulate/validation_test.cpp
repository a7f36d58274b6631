// Forecasts of other people's runs beside what those people measured. Nothing here was fitted to a single run (docs/runtimes.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>

#include "flotilla/base/error.hpp"
#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/files/sailor.hpp"
#include "flotilla/plan/allocate.hpp"
#include "flotilla/simulate/forecaster.hpp"
#include "support/published_data.hpp"

namespace flotilla::validation_test {
namespace {

namespace fs = std::filesystem;

simulate::Forecast forecast(const plan::Plan& plan, const cluster::Profile& library, const std::string& runtime) {
  const auto allocation = plan::allocate(plan, library);
  cluster::Profile profile = library;
  profile.devices = allocation.devices;
  return simulate::ProgramForecaster{profile, program::runtime_named(runtime), {}}.forecast(allocation.plan);
}

/// Errors of one kind, in parts of the measured value.
struct Errors {
  std::vector<double> all;
  double add(double forecast, double measured) {
    all.push_back(forecast / measured - 1);
    return all.back();
  }
  double mean() const {
    double sum = 0;
    for (double e : all) sum += std::abs(e);
    return sum / static_cast<double>(all.size());
  }
  double worst() const {
    double most = 0;
    for (double e : all) most = std::max(most, std::abs(e));
    return most;
  }
  double lowest() const { return *std::ranges::min_element(all); }
  std::string text() const {
    return flotilla::text(all.size(), " runs: mean ", 100 * mean(), " %, worst ", 100 * worst(), " %, lowest ", 100 * lowest(), " %");
  }
};

/// A run as the artifact's files keep it.
struct MeasuredRun {
  std::string name, set;
  plan::Plan plan;
  double seconds = 0, bytes = 0;
};

/// The model whose name stands in the path, else OPT-350.
model::Config model_of(const fs::path& file, const files::Library& library) {
  for (const auto& part : file)
    for (const auto& model : library.models)
      if (part == model.name) return model;
  return *std::ranges::find(library.models, "OPT-350", &model::Config::name);
}

std::vector<MeasuredRun> measured_runs(const fs::path& folder, const files::Library& library) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".json") found.push_back(entry.path());
  std::ranges::sort(found);
  std::vector<MeasuredRun> runs;
  for (const auto& file : found) {
    const auto json = files::Json::read(file);
    const auto model = model_of(file, library);
    const auto set = *fs::relative(file, folder).begin();
    runs.push_back({set.string() + " " + file.stem().string(), set.string(), files::sailor_plan_from_json(json, model, std::nullopt),
                    json.get_double("real"), json.get_double("max_mem")});
  }
  return runs;
}

class PublishedRuns : public testing::Test {
 protected:
  void SetUp() override {
    FLOTILLA_SKIP_WITHOUT_DATA("sailor");
    sailor_ = tests::published_data("sailor");
    library_ = files::read_sailor_profiles(sailor_).library;
    std::vector<std::string> types;
    for (const auto& type : library_.profile.device_types) types.push_back(type.name);
    library_.profile = cluster::complete_from_catalogue(library_.profile, files::built_in_catalogue(), types);
  }
  fs::path sailor_;
  files::Library library_;
};

TEST_F(PublishedRuns, OfMegatronDeepSpeed) {
  std::map<std::string, Errors> time, memory;
  std::printf("%-38s %10s %10s %8s %7s  %8s %8s %8s\n", "run", "forecast", "measured", "error", "bar", "GB", "measured", "error");
  for (const auto& run : measured_runs(sailor_ / "validation", library_)) {
    const auto result = forecast(run.plan, library_.profile, "megatron-deepspeed");
    const double peak = static_cast<double>(result.peak_memory().count);
    const double t = time[run.set].add(result.iteration.value, run.seconds), m = memory[run.set].add(peak, run.bytes);
    std::printf("%-38s %8.4f s %8.4f s %+7.2f%% %6.1f%%  %8.2f %8.2f %+7.2f%%\n", run.name.c_str(), result.iteration.value, run.seconds,
                100 * t, 100 * result.relative_error, peak / 1e9, run.bytes / 1e9, 100 * m);
  }
  for (const auto& [set, errors] : time)
    std::printf("%s: time: %s; memory: %s\n", set.c_str(), errors.text().c_str(), memory[set].text().c_str());
  ASSERT_EQ(time.at("clariden").all.size(), 15u);
  EXPECT_LE(time.at("clariden").mean(), 0.04);
  EXPECT_LE(time.at("clariden").worst(), 0.10);
  EXPECT_LE(memory.at("clariden").mean(), 0.015);
  EXPECT_LE(memory.at("clariden").worst(), 0.05);
  EXPECT_GE(memory.at("clariden").lowest(), -0.03);
  ASSERT_EQ(time.at("mit").all.size(), 2u);
  EXPECT_LE(time.at("mit").worst(), 0.10);
  EXPECT_LE(memory.at("mit").worst(), 0.10);
}

/// Selene's runs: the shape from the file, layers dealt evenly, and the blocks' matrices apart, which is what the published memory counts.
plan::Plan selene_plan(const files::Json& run, bool recompute_all, bool sequence_parallel) {
  const auto architecture = run.at("architecture"), parallel = run.at("parallelism");
  plan::Plan plan;
  plan.model = model::built_in("gpt2");
  plan.model.name = run.get_string("model");
  plan.model.hidden = plan.model.embedding_width = architecture.get_int("hidden");
  plan.model.blocks = architecture.get_int("layers");
  plan.model.heads = architecture.get_int("heads");
  plan.model.feed_forward = architecture.get_int("feed_forward");
  plan.model.vocabulary = architecture.get_int("vocabulary");
  plan.model.positions = plan.length = architecture.get_int("sequence_length");
  plan.model.dropout = plan.model.attention_dropout = 0.1;
  plan.precision = Precision::fp16;
  plan.global_batch = parallel.get_int("global_batch");
  plan.quantum = parallel.get_int("microbatch");
  plan.chunks = parallel.get_int("interleaving");
  plan.sequence_parallel = sequence_parallel;
  if (plan.chunks > 1) plan.schedule = plan::ScheduleKind::interleaved;
  const int stages = parallel.get_int("pipeline_parallel") * plan.chunks, data = parallel.get_int("data_parallel"),
            blocks = plan.model.blocks;
  for (int v = 0; v < stages; ++v) {
    plan::Stage stage;
    stage.first_layer = v == 0 ? 0 : 1 + blocks * v / stages;
    stage.last_layer = v + 1 == stages ? blocks + 2 : 1 + blocks * (v + 1) / stages;
    stage.recompute = recompute_all ? plan::Recompute::full : sequence_parallel ? plan::Recompute::selective : plan::Recompute::none;
    for (int r = 0; r < data; ++r) {
      plan::Replica replica;
      replica.device_type = "A100-80";
      replica.tensor_parallel = parallel.get_int("tensor_parallel");
      replica.sequences = plan.global_batch / data;
      stage.replicas.push_back(replica);
    }
    plan.stages.push_back(stage);
  }
  return plan;
}

double state_gib(const simulate::Forecast& forecast) {
  const auto& memory = forecast.kinds.front().memory.categories;
  double sum = 0;
  for (auto c : {program::Category::parameters, program::Category::gradients, program::Category::optimizer})
    sum += static_cast<double>(memory[static_cast<std::size_t>(c)].count);
  return sum / (1 << 30);
}
double activations_gib(const simulate::Forecast& forecast) {
  const auto& memory = forecast.kinds.front().memory.categories;
  return static_cast<double>(memory[static_cast<std::size_t>(program::Category::activations)].count) / (1 << 30);
}

TEST(PublishedSelene, OfMegatronLm) {
  FLOTILLA_SKIP_WITHOUT_DATA("megatron");
  const auto profile = cluster::complete_from_catalogue({}, files::built_in_catalogue(), {"A100-80"});
  Errors time, memory;
  std::printf("%-12s %-38s %10s %10s %8s %7s\n", "model", "", "forecast", "published", "error", "bar");
  const auto compare = [&](Errors& errors, const std::string& model, const char* what, double ours, double theirs, const char* unit,
                           double bar) {
    const double error = errors.add(ours, theirs);
    std::printf("%-12s %-38s %8.3f %s %8.3f %s %+7.2f%% %6.1f%%\n", model.c_str(), what, ours, unit, theirs, unit, 100 * error, 100 * bar);
  };
  for (const auto& run : files::Json::read(tests::published_data("megatron") / "selene.json").at("runs").items()) {
    const auto name = run.get_string("model");
    const auto full = forecast(selene_plan(run, true, false), profile, "megatron-lm");
    const auto selective = forecast(selene_plan(run, false, true), profile, "megatron-lm");
    const auto none = forecast(selene_plan(run, false, false), profile, "megatron-lm");
    const auto seconds = run.at("iteration_seconds");
    compare(time, name, "full recomputation", full.iteration.value, seconds.get_double("full_recompute"), "s  ", full.relative_error);
    compare(time, name, "sequence parallel, selective", selective.iteration.value,
            seconds.get_double("sequence_parallel_selective_recompute"), "s  ", selective.relative_error);
    const auto published = run.at("memory_gib_first_stage");
    for (const auto& [key, forecast] :
         {std::pair{"no_recompute_no_sequence_parallel", &none}, {"sequence_parallel_selective_recompute", &selective}}) {
      const auto place = published.at(key);
      compare(memory, name, key, state_gib(*forecast) + activations_gib(*forecast),
              place.get_double("parameters_and_optimizer") + place.get_double("activations"), "GiB", 0);
    }
  }
  std::printf("time: %s\nmemory: %s\n", time.text().c_str(), memory.text().c_str());
  EXPECT_LE(time.mean(), 0.02);
  EXPECT_LE(memory.mean(), 0.02);
}

}  // namespace
}  // namespace flotilla::validation_test
