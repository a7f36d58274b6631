#include "app/common/run_length.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "app/common/refuse.hpp"

namespace flotilla::app {
namespace {

constexpr double most_tokens = 1e18;

}  // namespace

std::int64_t iterations_for(const options::Setting& tokens, int global_batch, int length) {
  double number = 0;
  const char* end = tokens.value.data() + tokens.value.size();
  const auto [rest, failed] = std::from_chars(tokens.value.data(), end, number);
  const std::string_view suffix{rest, static_cast<std::size_t>(end - rest)};
  constexpr std::pair<std::string_view, double> scales[] = {{"", 1}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}};
  const auto scale = std::ranges::find(scales, suffix, &std::pair<std::string_view, double>::first);
  if (failed != std::errc{} || scale == std::end(scales) || !(number > 0) || !(number * scale->second <= most_tokens))
    refuse(tokens, tokens.value,
           "expected a number above 0, or one with M, B or T for million, billion or trillion; write for example 300B");
  return static_cast<std::int64_t>(std::ceil(number * scale->second / (static_cast<double>(global_batch) * length)));
}

}  // namespace flotilla::app
