// Forecasts of runs that others measured, beside what they measured (docs/measurements/validation.md). The bounds keep what was reached.
#include <gtest/gtest.h>

#include <map>

#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/files/published_runs.hpp"
#include "flotilla/published/comparison.hpp"
#include "support/published_data.hpp"

namespace flotilla::published_accuracy_test {
namespace {

std::map<std::string, published::Statistics> statistics_by_source() {
  const auto catalogue = files::built_in_catalogue();
  std::map<std::string, std::vector<published::Comparison>> comparisons;
  for (const auto& run : files::read_published_folder(tests::published_data("published")))
    comparisons[run.source].push_back(published::compare(run, catalogue));
  std::map<std::string, published::Statistics> all;
  for (const auto& [source, runs] : comparisons) {
    std::vector<const published::Comparison*> members;
    for (const auto& run : runs) members.push_back(&run);
    all.emplace(source, published::statistics(source, members));
  }
  return all;
}

struct Bound {
  const char* source;
  int forecast_runs;
  double time_error_mean;
};

TEST(PublishedAccuracy, StaysWhatItIs) {
  FLOTILLA_SKIP_WITHOUT_DATA("published");
  const auto all = statistics_by_source();
  for (const Bound& bound :
       {Bound{"vtrain_a100_single", 704, 0.08}, Bound{"bloom_a100", 55, 0.06}, Bound{"dgxc_h100_gb200", 135, 0.05},
        Bound{"internevo_a100", 36, 0.04}, Bound{"mosaicml_fsdp", 131, 0.06}, Bound{"megatron_core_golden_dense", 133, 0.15},
        Bound{"amp_t4", 28, 0.14}, Bound{"megatron_bridge_dense", 28, 0.075}, Bound{"torchtitan_h100_h200", 26, 0.085},
        Bound{"megatron_core_golden_moe", 33, 0.19}, Bound{"jax_toolbox_a100_h100", 11, 0.1}, Bound{"jeanzay_v100", 34, 0.23},
        Bound{"mlperf_training", 5, 0.02}, Bound{"flagperf", 8, 0.04}, Bound{"llm_c", 4, 0.1}, Bound{"ibm_fms_fsdp", 6, 0.05}}) {
    const auto& s = all.at(bound.source);
    std::printf("%-28s %4d of %4d runs, time error %.1f %% mean, %.1f %% worst, %.0f %% in the bar\n", s.name.c_str(), s.forecast_runs,
                s.runs, 100 * *s.time_error_mean, 100 * *s.time_error_worst, 100 * *s.coverage);
    EXPECT_GE(s.forecast_runs, bound.forecast_runs) << bound.source;
    EXPECT_LE(*s.time_error_mean, bound.time_error_mean) << bound.source;
  }
}

struct MemoryBound {
  const char* source;
  double error_mean;
};

TEST(PublishedAccuracy, KnowsMemory) {
  FLOTILLA_SKIP_WITHOUT_DATA("published");
  const auto all = statistics_by_source();
  for (const MemoryBound& bound :
       {MemoryBound{"megatron_core_golden_dense", 0.028}, MemoryBound{"megatron_core_golden_moe", 0.09}, MemoryBound{"bloom_a100", 0.05},
        MemoryBound{"internevo_a100", 0.07}, MemoryBound{"jeanzay_v100", 0.09}, MemoryBound{"flagperf", 0.11},
        MemoryBound{"torchtitan_h100_h200", 0.08}, MemoryBound{"qwen_finetuning_a100", 0.13}}) {
    const auto& s = all.at(bound.source);
    std::printf("%-28s memory error %.1f %% mean, bias %+.1f %%\n", s.name.c_str(), 100 * *s.memory_error_mean, 100 * *s.memory_bias);
    EXPECT_LE(*s.memory_error_mean, bound.error_mean) << bound.source;
  }
  const auto& bloom = all.at("bloom_a100");
  EXPECT_EQ(bloom.out_of_memory_called, bloom.out_of_memory);
  EXPECT_EQ(bloom.out_of_memory_false, 0);
}

/// Runs that went out of memory are called, and few of those that did not.
TEST(PublishedAccuracy, KnowsWhatFits) {
  FLOTILLA_SKIP_WITHOUT_DATA("published");
  int failed = 0, called = 0, wrongly = 0;
  for (const auto& [source, s] : statistics_by_source()) {
    failed += s.out_of_memory, called += s.out_of_memory_called, wrongly += s.out_of_memory_false;
    if (s.out_of_memory_false > 0) std::printf("%-28s %d that ran are called\n", source.c_str(), s.out_of_memory_false);
  }
  EXPECT_EQ(called, failed);
  EXPECT_LE(wrongly, 5);
}

}  // namespace
}  // namespace flotilla::published_accuracy_test
