// Leave one source out: the figures of a described runtime that no data sheet gives are chosen on the other sources of that runtime, and
// judged on the one that was left out (docs/measurements/validation.md). FLOTILLA_VALIDATION_RUNS: how many runs of a source are used.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>

#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/files/published_runs.hpp"
#include "flotilla/published/comparison.hpp"
#include "support/published_data.hpp"

namespace flotilla {
namespace {

using program::LayerRuntime;

/// A figure that is chosen, and what it may be. Those of attention and host are factors: devices have shares and hosts of their own.
struct Fitted {
  const char* name;
  void (*set)(LayerRuntime&, double);
  std::vector<double> values;  // the first is where the choice starts
};

const std::array fitted{
    Fitted{"product share", [](LayerRuntime& r, double v) { r.kernels_half.product_share = v; }, {0.85, 0.75, 0.8, 0.9, 0.95}},
    Fitted{"attention", [](LayerRuntime& r, double v) { r.kernels_half.attention_share *= v; }, {1, 0.7, 1.4}},
    Fitted{"traffic", [](LayerRuntime& r, double v) { r.kernels_half.traffic = v; }, {1, 2, 3}},
    Fitted{"host", [](LayerRuntime& r, double v) { r.kernels_half.host = r.kernels_half.host * v; }, {1, 0.5, 2}},
};
using Choice = std::array<std::size_t, fitted.size()>;

std::size_t runs_of_a_source() {
  const char* said = std::getenv("FLOTILLA_VALIDATION_RUNS");
  return said ? static_cast<std::size_t>(std::max(1, std::atoi(said))) : 12;
}

/// Runs with a measured time, evenly out of the source's.
std::vector<published::Run> thinned(std::vector<published::Run> runs) {
  std::erase_if(runs, [](const auto& run) { return !run.measured.iteration; });
  const std::size_t wanted = runs_of_a_source();
  if (runs.size() <= wanted) return runs;
  std::vector<published::Run> some;
  for (std::size_t i = 0; i < wanted; ++i) some.push_back(runs[i * runs.size() / wanted]);
  return some;
}

class Sources {
 public:
  Sources() {
    std::map<std::string, std::vector<published::Run>> all;
    for (const auto& run : files::read_published_folder(tests::published_data("published")))
      if (published::express(run, catalogue_).run) all[run.source].push_back(run);
    for (auto& [source, runs] : all) {
      const std::string runtime = published::express(runs.front(), catalogue_).run->runtime.name;
      groups_[runtime].push_back(source);
      runs_[source] = thinned(std::move(runs));
    }
  }

  const std::map<std::string, std::vector<std::string>>& groups() const { return groups_; }

  /// Signed errors of a source's forecasts.
  const std::vector<double>& errors(const std::string& source, const Choice& choice) {
    const auto [place, fresh] = errors_.try_emplace({source, choice});
    if (!fresh) return place->second;
    const auto adjust = [&](LayerRuntime& runtime) {
      for (std::size_t i = 0; i < fitted.size(); ++i) fitted[i].set(runtime, fitted[i].values[choice[i]]);
    };
    for (const auto& run : runs_.at(source))
      if (const auto error = published::compare(run, catalogue_, adjust).time_error()) place->second.push_back(*error);
    return place->second;
  }

  double mean(const std::vector<std::string>& sources, const Choice& choice) {
    double sum = 0;
    for (const auto& source : sources) {
      double of_source = 0;
      for (double e : errors(source, choice)) of_source += std::abs(std::log1p(e));
      sum += of_source / static_cast<double>(std::max<std::size_t>(1, errors(source, choice).size()));
    }
    return sum / static_cast<double>(sources.size());
  }

  /// One figure after the other, twice.
  Choice best(const std::vector<std::string>& sources) {
    Choice choice{};
    for (int sweep = 0; sweep < 2; ++sweep)
      for (std::size_t i = 0; i < fitted.size(); ++i) {
        Choice candidate = choice;
        for (candidate[i] = 0; candidate[i] < fitted[i].values.size(); ++candidate[i])
          if (mean(sources, candidate) < mean(sources, choice)) choice = candidate;
      }
    return choice;
  }

 private:
  cluster::Catalogue catalogue_ = files::built_in_catalogue();
  std::map<std::string, std::vector<std::string>> groups_;
  std::map<std::string, std::vector<published::Run>> runs_;
  std::map<std::pair<std::string, Choice>, std::vector<double>> errors_;
};

double mean_of(const std::vector<double>& errors) {
  double sum = 0;
  for (double e : errors) sum += std::abs(e);
  return sum / static_cast<double>(std::max<std::size_t>(1, errors.size()));
}

/// Nine in ten are closer.
double ninetieth(std::vector<double> errors) {
  for (double& e : errors) e = std::abs(e);
  std::ranges::sort(errors);
  return errors.empty() ? 0 : errors[std::min(errors.size() - 1, errors.size() * 9 / 10)];
}

TEST(CrossValidation, LeavesOneSourceOut) {
  FLOTILLA_SKIP_WITHOUT_DATA("published");
  Sources sources;
  std::vector<double> all;
  for (const auto& [runtime, members] : sources.groups()) {
    if (members.size() < 2) continue;
    for (const auto& left_out : members) {
      std::vector<std::string> others = members;
      std::erase(others, left_out);
      const Choice choice = sources.best(others);
      const auto& errors = sources.errors(left_out, choice);
      if (errors.empty()) continue;
      std::printf("%-20s %-28s %3zu runs, %5.1f %% mean, %5.1f %% nine in ten;", runtime.c_str(), left_out.c_str(), errors.size(),
                  100 * mean_of(errors), 100 * ninetieth(errors));
      for (std::size_t i = 0; i < fitted.size(); ++i) std::printf(" %s %g", fitted[i].name, fitted[i].values[choice[i]]);
      std::printf("\n");
      all.push_back(mean_of(errors));
    }
  }
  ASSERT_GE(all.size(), 4u);
  std::printf("mean over the sources: %.1f %%\n", 100 * mean_of(all));
  EXPECT_LE(mean_of(all), 0.2);
}

}  // namespace
}  // namespace flotilla
