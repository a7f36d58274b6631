#include "app/train/forecast_text.hpp"

#include "app/common/report_text.hpp"
#include "app/common/table.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/key_values.hpp"
#include "flotilla/base/text.hpp"

namespace flotilla::app {
namespace {

std::string time_shares(const simulate::Forecast& forecast) {
  std::string words;
  for (int a = 0; a < simulate::activity_count; ++a) {
    const auto activity = static_cast<simulate::Activity>(a);
    const double part = forecast.breakdown[activity] / forecast.iteration;
    if (part < 0.005) continue;
    words += text(words.empty() ? "" : ", ", in_words(activity), " ", percent(part));
  }
  return words;
}

std::string memory_shares(const simulate::MemoryForecast& memory) {
  std::string words;
  for (std::size_t c = 0; c < program::category_count; ++c)
    if (memory.categories[c].count > 0)
      words += text(words.empty() ? "" : ", ", simulate::name_of(static_cast<program::Category>(c)), " ", memory.categories[c]);
  const auto& host = memory.on_host;
  if (host.total().count == 0) return words + text(", process ", memory.runtime_constant);
  return words + text(", libraries ", memory.runtime_constant, "; on the host: state ", host.state, ", pinned ", host.pinned, ", process ",
                      host.process);
}

}  // namespace

std::string forecast_text(const simulate::Forecast& forecast) {
  const simulate::MemoryForecast* fullest = nullptr;
  for (const auto& kind : forecast.kinds)
    if (fullest == nullptr || kind.memory.peak() > fullest->peak()) fullest = &kind.memory;
  std::vector<std::pair<std::string, std::string>> lines{
      {"iteration", text(forecast.iteration, " ", simulate::bar_in_words(forecast.relative_error), " forecast: ", time_shares(forecast))}};
  if (fullest != nullptr) lines.push_back({"memory", text(fullest->peak(), " on the fullest device: ", memory_shares(*fullest))});
  if (const auto words = transports_in_words(forecast.transports); !words.empty()) lines.push_back({"between GPUs", words});
  return key_values_within(lines, table_width);
}

}  // namespace flotilla::app
