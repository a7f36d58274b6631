#include "app/train/run_summary.hpp"

#include "app/common/table.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/journal/console.hpp"

namespace flotilla::app {

namespace {

std::string losses_in_words(const session::IncarnationTotals& totals) {
  return totals.first_loss ? text(formatted("%.4f", *totals.first_loss), " to ", formatted("%.4f", *totals.last_loss)) : std::string{"-"};
}

}  // namespace

std::string run_summary(const session::IncarnationTotals& totals, std::int64_t of_steps, const std::string& directory) {
  if (totals.steps() == 0) return {};
  const auto steps = static_cast<double>(totals.steps());
  const double speed = static_cast<double>(totals.tokens) / totals.in_steps.value;
  std::vector<std::pair<std::string, std::string>> lines{
      {"summary",
       text("steps ", totals.first_step, " to ", totals.last_step, " of ", of_steps, " in ", journal::clock_text(totals.in_steps), ": ",
            totals.in_steps / steps, "/step, ", journal::short_number(speed), " tokens/s")},
      {"loss", losses_in_words(totals)},
      {"checkpoint", totals.saved_step > 0 ? text(directory, "/step-", totals.saved_step) : std::string{"none"}},
      {"metrics", directory + "/metrics.jsonl"}};
  if (totals.empty_steps > 0)
    lines.insert(lines.begin() + 2,
                 {"no loss", text(totals.empty_steps, " of ", totals.steps(), " steps, in which no token counted: they updated nothing")});
  return key_values_within(lines, table_width);
}

}  // namespace flotilla::app
