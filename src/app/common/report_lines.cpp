#include "app/common/report_lines.hpp"

#include <map>

#include "app/common/pool.hpp"
#include "flotilla/base/text.hpp"

namespace flotilla::app {

std::vector<ReportLine> lines_of(const simulate::Report& report) {
  std::map<std::pair<std::vector<int>, std::string>, ReportLine> lines;
  for (const auto& row : report.rows) {
    ReportLine& line = lines[{row.stages, place_in_words(row.device_type, row.zone)}];
    line.stages = row.stages;
    line.place = place_in_words(row.device_type, row.zone);
    for (std::size_t a = 0; a < line.breakdown.seconds.size(); ++a) line.breakdown.seconds[a] += row.breakdown.seconds[a] * row.ranks;
    line.ranks += row.ranks;
    if (line.fullest == nullptr || row.memory.peak() > line.fullest->memory.peak()) line.fullest = &row;
  }
  std::vector<ReportLine> all;
  for (auto& [key, line] : lines) {
    for (auto& seconds : line.breakdown.seconds) seconds = seconds / line.ranks;
    all.push_back(std::move(line));
  }
  return all;
}

std::string stages_in_words(const std::vector<int>& stages) {
  std::string words;
  for (int s : stages) words += text(words.empty() ? "" : ",", s);
  return words;
}

}  // namespace flotilla::app
