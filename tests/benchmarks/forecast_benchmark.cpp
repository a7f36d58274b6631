// What a forecast costs: CPU milliseconds of ProgramForecaster::forecast(plan), lowering included, on one core, against devices,
// microbatches and classes; then the three aims. Medians of repeated samples. CPU seconds count, so that others may use the machine.
//
//   forecast_benchmark [--quick]      --quick: each case once and small, to see that it works
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "flotilla/simulate/forecaster.hpp"
#include "simulate/cluster_fixture.hpp"

namespace {

using namespace flotilla;

struct Case {
  const char* model;
  int data, pipeline, tensor, microbatches;
  int devices() const { return data * pipeline * tensor; }
};

struct Result {
  double milliseconds = 0;
  std::size_t kinds = 0;
};

constexpr int length = 1024, devices_of_a_host = 8;

cluster::Profile cluster_for(const Case& c, const model::Config& model) {
  const int hosts = (c.devices() + devices_of_a_host - 1) / devices_of_a_host;
  auto profile = fixture::uniform_cluster(hosts, devices_of_a_host, fixture::device_type("accelerator", 100'000, 1500, {80LL << 30}));
  fixture::measure(profile, model, length, Precision::bf16, {1, 2, 4, 8}, {1, 2, 4});
  return profile;
}

plan::Plan plan_for(const Case& c, const model::Config& model) {
  auto plan = plan::even_plan(model, length, c.data * c.microbatches, Precision::bf16, c.data, c.pipeline, c.tensor, 1);
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas) replica.device_type = "accelerator";
  return plan;
}

double cpu_milliseconds() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// The planner's way: one forecaster, plan after plan. A sample is long enough for the clock.
Result measure(const Case& c, bool quick) {
  const auto model = model::built_in(c.model);
  const auto profile = cluster_for(c, model);
  const auto plan = plan_for(c, model);
  const simulate::ProgramForecaster forecaster{profile, {}, {}};
  Result result;
  double start = cpu_milliseconds();
  result.kinds = forecaster.forecast(plan).kinds.size();
  const double first = std::max(0.01, cpu_milliseconds() - start);
  const int samples = quick ? 1 : 7, runs = quick ? 1 : std::max(1, static_cast<int>(50 / first));
  std::vector<double> times;
  for (int s = 0; s < samples; ++s) {
    start = cpu_milliseconds();
    for (int r = 0; r < runs; ++r) forecaster.forecast(plan);
    times.push_back((cpu_milliseconds() - start) / runs);
  }
  result.milliseconds = median(std::move(times));
  return result;
}

void print_series(const char* title, const std::vector<Case>& cases, bool quick) {
  std::printf("\n%s\n%9s %9s %8s %6s %13s %10s\n", title, "devices", "DxPxT", "model", "kinds", "microbatches", "CPU ms");
  std::vector<Result> results;
  for (const Case& c : cases) results.push_back(measure(c, quick));
  double most = 0;
  for (const Result& r : results) most = std::max(most, r.milliseconds);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const auto degrees = std::to_string(c.data) + "x" + std::to_string(c.pipeline) + "x" + std::to_string(c.tensor);
    const std::string bar(most > 0 ? static_cast<std::size_t>(40 * results[i].milliseconds / most + 0.5) : 0, '#');
    std::printf("%9d %9s %8s %6zu %13d %10.3f %s\n", c.devices(), degrees.c_str(), c.model, results[i].kinds, c.microbatches,
                results[i].milliseconds, bar.c_str());
  }
}

void print_aim(const char* what, const Case& c, double limit, bool quick) {
  const double time = measure(c, quick).milliseconds;
  std::printf("%-58s %10.3f %10.3f %7.0f  %s\n", what, time, limit, 1e3 / time, time <= limit ? "pass" : "miss");
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc == 2 && std::string{argv[1]} == "--quick";
  if (argc > 1 && !quick) {
    std::fprintf(stderr, "forecast_benchmark takes --quick or nothing, not '%s'\n", argv[1]);
    return 64;
  }
  print_series("Devices: 8 microbatches, more and more replicas",
               quick ? std::vector<Case>{{"opt-125m", 1, 2, 2, 2}, {"opt-125m", 4, 2, 2, 2}}
                     : std::vector<Case>{{"opt-1.3b", 2, 4, 8, 8},
                                         {"opt-1.3b", 32, 4, 8, 8},
                                         {"opt-1.3b", 512, 4, 8, 8},
                                         {"opt-1.3b", 3125, 4, 8, 8},
                                         {"opt-1.3b", 25000, 4, 1, 8}},
               quick);
  print_series("Microbatches: 64 devices",
               quick ? std::vector<Case>{{"opt-125m", 2, 2, 2, 1}, {"opt-125m", 2, 2, 2, 4}}
                     : std::vector<Case>{{"opt-1.3b", 2, 4, 8, 8},
                                         {"opt-1.3b", 2, 4, 8, 32},
                                         {"opt-1.3b", 2, 4, 8, 128},
                                         {"opt-1.3b", 2, 4, 8, 512},
                                         {"opt-1.3b", 2, 4, 8, 2048}},
               quick);
  print_series("Classes: 64 devices, 16 microbatches, a class a stage",
               quick ? std::vector<Case>{{"opt-125m", 4, 1, 1, 2}, {"opt-125m", 1, 4, 1, 2}}
                     : std::vector<Case>{{"opt-1.3b", 64, 1, 1, 16},
                                         {"opt-1.3b", 32, 2, 1, 16},
                                         {"opt-1.3b", 16, 4, 1, 16},
                                         {"opt-1.3b", 8, 8, 1, 16},
                                         {"opt-1.3b", 4, 16, 1, 16}},
               quick);
  std::printf("\n%-58s %10s %10s %7s\n", "Aims", "CPU ms", "at most", "a s");
  const int factor = quick ? 16 : 1;
  print_aim("64 devices, 4 classes: 2,000 forecasts a second", {"opt-350m", 8, 4, 2, 8}, 0.5, quick);
  print_aim("64 devices, 8 classes", {"opt-350m", 4, 8, 2, 16}, 0.5, quick);
  print_aim("1,024 devices, 512 microbatches: under 20 ms", {"opt-30b", 8, 16, 8, 512 / factor}, 20, quick);
  print_aim("100,000 devices (tensor-parallel): under 200 ms", {"opt-30b", 1250 / factor, 10, 8, 8}, 200, quick);
  print_aim("100,000 devices (12,500 pipelines): under 200 ms", {"opt-1.3b", 12500 / factor, 8, 1, 8}, 200, quick);
  return 0;
}
