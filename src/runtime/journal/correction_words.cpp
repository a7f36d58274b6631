#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/journal/console.hpp"

namespace flotilla::journal {
namespace {

constexpr std::size_t most_named = 4;  // operations of a line
constexpr std::size_t most_subjects = 2;

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

std::vector<std::pair<std::string, FactorRange>> ranges_of(const CorrectionRecord& record) {
  std::vector<std::pair<std::string, FactorRange>> subjects;  // in the order in which they come
  for (const auto& figure : record.figures) {
    auto found = std::ranges::find(subjects, figure.subject, [](const auto& one) { return one.first; });
    if (found == subjects.end()) found = subjects.insert(found, {figure.subject, {}});
    found->second.add(figure);
  }
  std::erase_if(subjects, [](const auto& one) { return one.second.measured == 0; });
  return subjects;
}

/// Two digits: no one uses more.
std::string factor_in_words(double factor) { return formatted(factor >= 10 ? "%.0f" : "%.2g", factor); }

std::string short_words(const FactorRange& r) {
  const auto low = factor_in_words(r.lowest), high = factor_in_words(r.highest);
  return low == high ? low : low + " to " + high;
}

}  // namespace

std::vector<std::string> wrong_figures_in_words(const CorrectionRecord& record) {
  std::vector<std::string> lines;
  for (const auto& [subject, range] : ranges_of(record)) lines.push_back(in_words(subject, range));
  return lines;
}

std::string correction_in_short(const CorrectionRecord& record) {
  const auto subjects = ranges_of(record);
  std::string words;
  for (std::size_t i = 0; i < std::min(subjects.size(), most_subjects); ++i) {
    const auto& [subject, range] = subjects[i];
    words += text(i == 0 ? "" : ", ", range.is_links ? "" : "operations of ", subject, i == 0 ? " take " : " ", short_words(range),
                  i == 0 ? " times as long as in the profile" : " times");
  }
  if (subjects.size() > most_subjects) words += text(", ", subjects.size() - most_subjects, " more kinds differ");
  return text(words,
              record.used() ? "; the next start plans with " + record.file : "; the profile stays, for it forecasts nearer as it is");
}

std::string correction_in_words(const CorrectionRecord& r) {
  return text("after step ", r.step, ": ", Seconds{r.forecast_seconds}, " forecast, ", Seconds{r.corrected_seconds},
              " by the corrected profile, ", Seconds{r.measured_seconds}, " measured (median of ", r.iterations, "); ",
              r.used() ? r.file : "not nearer, so the profile stays as it is");
}

}  // namespace flotilla::journal
