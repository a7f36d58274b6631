// The catalogue's roofline against layer times that others measured and published: the layer profiles of the Sailor artifact (Strati et
// al., SOSP 2025; fp32, Megatron-DeepSpeed) and Table 4 of Korthikanti et al. (MLSys 2023; fp16, Megatron-LM). Shares of the peaks were
// fitted to OPT-350M and GPT-Neo-2.7B at degree 1; OPT-30B, every degree above 1 and the 22B model are held out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <map>
#include <sstream>

#include "cost/operation_cost.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/simulate/profile_cost.hpp"
#include "support/published_data.hpp"

namespace flotilla::simulate::published_layers_test {
namespace {

namespace fs = std::filesystem;
using files::Json;
using model::Operation;

/// PyTorch's eager kernels in fp32: scores are written, masked (read, write), normalized (read, write) and read forward; 22 backward is
/// what the published times show of autograd's copies. The host needs about 50 us for a kernel: layers of one small microbatch take
/// 1.5 ms whatever the device.
const Execution eager{6, 22, {50e-6}};
/// Megatron-LM in half precision: one kernel scales, masks and normalizes; dropout with a mask of a byte: reads and writes of scores.
const Execution megatron{6.5, 10, {}};

model::Config shape_of(const std::string& name, int hidden, int heads, int vocabulary) {
  model::Config c = model::built_in("gpt2");
  c.name = name;
  c.hidden = c.embedding_width = hidden;
  c.heads = heads;
  c.feed_forward = 4 * hidden;
  c.vocabulary = vocabulary;
  c.positions = 2048;
  return c;
}

struct PassSeconds {
  double forward = 0, backward = 0;
};

/// One block without the sums over its group.
PassSeconds block_seconds(const cluster::Profile& profile, const model::Config& model, const model::LayerShape& shape,
                          const Execution& execution) {
  const std::string& type = profile.device_types.front().name;
  const auto of = [&](Operation operation) { return operation_cost(profile, model, type, operation, shape, execution).time.value; };
  return {of(Operation::attention_forward) + of(Operation::mlp_forward) + of(Operation::block_end_forward),
          of(Operation::mlp_backward) + of(Operation::attention_backward) + of(Operation::block_begin_backward)};
}

/// Published seconds of all-reduces inside a node, by megabytes; linear between sizes, proportional beyond the largest.
class AllReduce {
 public:
  AllReduce(const fs::path& folder, int devices) {
    std::map<double, std::pair<double, int>> sums;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (!entry.path().filename().string().ends_with(text("all_reduce_", devices, "gpus.csv"))) continue;
      std::istringstream lines{files::read_text(entry.path())};
      std::string line;
      std::getline(lines, line);  // heading
      for (double size = 0, time = 0; std::getline(lines, line);)
        if (std::sscanf(line.c_str(), "%lf,%lf", &size, &time) == 2) sums[size].first += time * 1e-3, ++sums[size].second;
    }
    for (const auto& [size, sum] : sums) times_[size] = sum.first / sum.second;
  }
  bool known() const { return times_.size() > 1; }
  double seconds(double megabytes) const {
    const auto above = times_.lower_bound(megabytes);
    if (above == times_.begin()) return above->second;
    if (above == times_.end()) return times_.rbegin()->second * megabytes / times_.rbegin()->first;
    const auto below = std::prev(above);
    return below->second + (above->second - below->second) * (megabytes - below->first) / (above->first - below->first);
  }

 private:
  std::map<double, double> times_;
};

/// Forecast over published seconds.
struct Ratios {
  std::vector<double> values;
  double quantile(double q) const {
    std::vector<double> errors;
    for (double value : values) errors.push_back(std::abs(value - 1));
    std::ranges::sort(errors);
    return errors[static_cast<std::size_t>(q * static_cast<double>(errors.size() - 1))];
  }
};

struct Case {
  const char* type;    ///< of the catalogue, with "+tf32" where the times were taken so
  const char* folder;  ///< of the artifact
};

class PublishedLayers : public ::testing::Test {
 protected:
  void SetUp() override {
    FLOTILLA_SKIP_WITHOUT_DATA("sailor");
    sailor_ = tests::published_data("sailor");
  }

  cluster::Profile profile_of(const std::string& type) const { return cluster::complete_from_catalogue({}, catalogue_, {type}); }

  /// Ratios of every published size of one model on one type: degree 1, and the others.
  std::pair<Ratios, Ratios> ratios(const model::Config& model, const std::string& type, const std::string& gpu) const {
    const auto profile = profile_of(type);
    const Json times = Json::read(sailor_ / "profiles" / model.name / gpu / "profile.json");
    std::pair<Ratios, Ratios> all;
    for (const std::string& sequences : times.keys())
      for (const std::string& degree : times.at(sequences).keys()) {
        const model::LayerShape shape{std::stoi(sequences), 2048, std::stoi(degree), 0, Precision::fp32};
        if (model.heads % shape.tensor_parallel == 0) add(profile, model, shape, gpu, times.at(sequences).at(degree), all);
      }
    return all;
  }

  fs::path sailor_;
  cluster::Catalogue catalogue_ = files::built_in_catalogue();

 private:
  void add(const cluster::Profile& profile, const model::Config& model, const model::LayerShape& shape, const std::string& gpu,
           const Json& layers, std::pair<Ratios, Ratios>& all) const {
    double sum = 0;
    if (shape.tensor_parallel > 1) {
      // The two A100 were measured in the same kind of node; collectives were published of one.
      const AllReduce inside{sailor_ / "collectives" / (gpu == "A100-80" ? "A100-40" : gpu) / "fp32", shape.tensor_parallel};
      if (!inside.known()) return;
      sum = 2 * inside.seconds(static_cast<double>(shape.tokens()) * model.hidden * 4 / (1 << 20));
    }
    const PassSeconds block = block_seconds(profile, model, shape, eager);
    auto& ratios = (shape.tensor_parallel == 1 ? all.first : all.second).values;
    const auto second = layers.at("2").items();  // the first layer of a profile waits for others' work
    ratios.push_back((block.forward + sum) / second[0].as_double());
    ratios.push_back((block.backward + sum) / second[1].as_double());
  }
};

void print(const std::string& model, const std::string& type, const std::string& what, const Ratios& r) {
  if (r.values.empty()) return;
  const auto [low, high] = std::ranges::minmax(r.values);
  std::cout << std::left << std::setw(14) << model << std::setw(14) << type << std::setw(20) << what << std::right << std::setw(4)
            << r.values.size() << std::fixed << std::setprecision(3) << std::setw(9) << r.quantile(0.5) << std::setw(9) << r.quantile(0.9)
            << std::setw(9) << low << std::setw(9) << high << "\n";
}

void print_heading() {
  std::cout << "model         type          times                  n   median   90 %   lowest  highest   (forecast / published; relative "
               "error)\n";
}

TEST_F(PublishedLayers, NineInTenLieWithinTheStatedError) {
  print_heading();
  const model::Config opt = shape_of("OPT-350", 1024, 16, 50272), neo = shape_of("GPT-Neo-2.7", 2560, 32, 50257),
                      large = shape_of("OPT-30", 7168, 56, 50272);
  // The artifact's GPT-Neo profile of GH-96 repeats OPT-350's numbers, so it is left out. OPT-30 on A100 reached 18 of 19.5 TFLOP/s, the
  // others 30 and more: it alone was taken without TF32.
  const std::vector<std::pair<Case, std::vector<model::Config>>> cases{
      {{"A100-40+tf32", "A100-40"}, {opt, neo}},  {{"A100-40", "A100-40"}, {large}},           {{"A100-80+tf32", "A100-80"}, {opt, neo}},
      {{"GH200-96+tf32", "GH-96"}, {opt, large}}, {{"V100-16", "V100-16"}, {opt, neo, large}}, {{"RTX-2080-Ti", "RTX-2080"}, {opt}},
      {{"RTX-3090", "RTX-3090"}, {opt}},          {{"Titan-RTX", "Titan-RTX"}, {opt}}};
  for (const auto& [c, models] : cases) {
    const double stated = cluster::device_type(catalogue_, c.type).efficiency.error;
    for (const auto& model : models) {
      const auto [one, more] = ratios(model, c.type, c.folder);
      print(model.name, c.type, model.name == "OPT-30" ? "held out" : "fitted", one);
      print(model.name, c.type, "held out, degree > 1", more);
      Ratios all = one;
      all.values.insert(all.values.end(), more.values.begin(), more.values.end());
      EXPECT_LE(all.quantile(0.9), stated) << c.type << " " << model.name;
    }
  }
}

TEST_F(PublishedLayers, AdamWStreamsItsStates) {
  // The artifact timed the optimizer's step over its embedding, two blocks and head.
  print_heading();
  const Json sizes = Json::read(sailor_ / "model_info" / "llm_info.json").at("OPT-350").at("1");
  const auto parameters = [&](const char* layer) { return sizes.at(layer).at("params_floats").as_int64(); };
  const std::int64_t elements = parameters("0") + 2 * parameters("1") + parameters("25");
  for (const auto& [type, folder] : {Case{"A100-40", "A100-40"},
                                     {"GH200-96", "GH-96"},
                                     {"V100-16", "V100-16"},
                                     {"RTX-2080-Ti", "RTX-2080"},
                                     {"RTX-3090", "RTX-3090"},
                                     {"Titan-RTX", "Titan-RTX"}}) {
    const auto profile = profile_of(type);
    const Json layers = Json::read(sailor_ / "profiles" / "OPT-350" / folder / "profile.json").at("1").at("1");
    const double published = layers.at("1").items()[2].as_double();
    const double ratio = ProfileCost{profile}.adamw(type, elements, Precision::fp32).time.value / published;
    print("OPT-350", type, "AdamW", {{ratio}});
    EXPECT_NEAR(ratio, 1, 0.3) << type;
  }
}

TEST(MegatronLayer, LiesWithinTheStatedError) {
  // Korthikanti et al., Table 4: one layer of the 22B model on eight A100-80, microbatch 4, no recomputation, no sequence parallelism.
  const auto catalogue = files::built_in_catalogue();
  const auto profile = cluster::complete_from_catalogue({}, catalogue, {"A100-80"});
  const model::Config model = shape_of("megatron-22B", 6144, 64, 51200);
  const model::LayerShape shape{4, 2048, 8, 0, Precision::fp16};
  const PassSeconds block = block_seconds(profile, model, shape, megatron);
  const auto node = cluster::catalogue_links(catalogue, {"A100-80"}).front();
  const double bytes = static_cast<double>(shape.tokens()) * model.hidden * 2;
  // Two sums a pass, as a ring: 2 (G - 1) / G of the bytes over a device's link.
  const double sums = 2 * (2 * 7.0 / 8 * bytes / node.pieces.front().bandwidth.value);
  print_heading();
  print("megatron-22B", "A100-80 fp16", "forward", {{(block.forward + sums) / 7.7e-3}});
  print("megatron-22B", "A100-80 fp16", "backward", {{(block.backward + sums) / 11.9e-3}});
  // Each share of a pass with its own error (docs/measurements/error-bars.md).
  const auto stated = [&](double products) {
    return (products * profile.device_types.front().efficiency.error_16 + sums * node.relative_scatter) / (products + sums);
  };
  EXPECT_NEAR((block.forward + sums) / 7.7e-3, 1, stated(block.forward));
  EXPECT_NEAR((block.backward + sums) / 11.9e-3, 1, stated(block.backward));
}

}  // namespace
}  // namespace flotilla::simulate::published_layers_test
