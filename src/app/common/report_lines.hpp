#pragma once
#include <string>
#include <vector>

#include "flotilla/simulate/report.hpp"

namespace flotilla::app {

/// Rows of a report as tables and plots show them: kinds of one stage, type and zone together.
struct ReportLine {
  std::vector<int> stages;
  std::string place;  ///< "A100-40 @ zone-a"
  int ranks = 0;
  simulate::Breakdown breakdown;                 ///< mean
  const simulate::ReportRow* fullest = nullptr;  ///< of the report, the row that needs most memory
};
/// By stage and place. They point into the report.
std::vector<ReportLine> lines_of(const simulate::Report&);

/// "0,4".
std::string stages_in_words(const std::vector<int>& stages);

}  // namespace flotilla::app
