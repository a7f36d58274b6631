#include <cstdint>

#include "app/hostile_forecast.hpp"

/// A plan, a line of "---" and a profile. Run: app_forecast_fuzz -max_len=65536 tests/app/corpus/forecast
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string all{reinterpret_cast<const char*>(data), size}, divider = "\n---\n";
  const auto at = all.find(divider);
  if (at != std::string::npos) flotilla::app::testing::forecast(all.substr(0, at), all.substr(at + divider.size()));
  return 0;
}
