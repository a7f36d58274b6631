#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/journal/console.hpp"

namespace flotilla::journal {
namespace {

constexpr std::size_t most_named = 4;  // operations of a line

struct FactorRange {
  double lowest = 0, highest = 0, lower_quartile = 0, upper_quartile = 0, error_bar = 0;
  std::string operations;
  std::size_t named = 0, measured = 0;
  bool is_links = false;

  void add(const WrongFigure& f) {
    if (f.inferred) return;
    const bool first = measured++ == 0;
    is_links = f.figure == "messages" || f.figure == "sums";
    lowest = first ? f.factor() : std::min(lowest, f.factor());
    highest = first ? f.factor() : std::max(highest, f.factor());
    lower_quartile = first ? f.lower_quartile : std::min(lower_quartile, f.lower_quartile);
    upper_quartile = first ? f.upper_quartile : std::max(upper_quartile, f.upper_quartile);
    error_bar = std::max(error_bar, f.relative_error);
    if (!is_links && ++named <= most_named) operations += (first ? "" : ", ") + f.figure + formatted(" %.2f", f.factor());
  }
};

std::string in_words(const std::string& subject, const FactorRange& r) {
  const auto factors = formatted("%.2f", r.lowest) == formatted("%.2f", r.highest)
                           ? formatted("%.2f", r.lowest)
                           : formatted("%.2f", r.lowest) + formatted(" to %.2f", r.highest);
  std::string operations = r.is_links ? "" : r.operations;
  if (r.named > most_named) operations += text(", ", r.named - most_named, " more");
  return text(subject, r.is_links ? " take " : ": operations take ", factors, " times as long as in the profile (", operations,
              operations.empty() ? "" : "; ", "quartiles ", formatted("%.2f", r.lower_quartile), formatted(" to %.2f", r.upper_quartile),
              ", error bar ", percent(r.error_bar), ")");
}

}  // namespace

std::vector<std::string> wrong_figures_in_words(const CorrectionRecord& record) {
  std::vector<std::pair<std::string, FactorRange>> subjects;  // in the order in which they come
  for (const auto& figure : record.figures) {
    auto found = std::ranges::find(subjects, figure.subject, [](const auto& one) { return one.first; });
    if (found == subjects.end()) found = subjects.insert(found, {figure.subject, {}});
    found->second.add(figure);
  }
  std::vector<std::string> lines;
  for (const auto& [subject, range] : subjects)
    if (range.measured > 0) lines.push_back(in_words(subject, range));
  return lines;
}

std::string correction_in_words(const CorrectionRecord& r) {
  return text("after step ", r.step, ": ", Seconds{r.forecast_seconds}, " forecast, ", Seconds{r.corrected_seconds},
              " by the corrected profile, ", Seconds{r.measured_seconds}, " measured (median of ", r.iterations, "); ",
              r.used() ? r.file : "not nearer, so the profile stays as it is");
}

}  // namespace flotilla::journal
