#include "flotilla/base/utc.hpp"

#include <ctime>

namespace flotilla {
namespace {

constexpr const char* format = "%Y-%m-%dT%H:%M:%SZ";

}  // namespace

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char buffer[32];
  std::strftime(buffer, sizeof buffer, format, &parts);
  return buffer;
}

std::optional<double> parse_utc(const std::string& text) {
  std::tm parts{};
  const char* end = strptime(text.c_str(), format, &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return static_cast<double>(timegm(&parts));
}

}  // namespace flotilla
