#include "app/hostile_forecast.hpp"
#include "support/temporary_folder.hpp"

#include <algorithm>
#include <filesystem>
#include <random>

// Plans and profiles with something wrong in them, still JSON: a forecast with sane figures or a clear refusal, never anything else.
namespace flotilla::app {
namespace {

using tests::content;

/// The corpus: files of a plan, a line of "---" and a profile.
std::vector<std::pair<std::string, std::string>> corpus() {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto& entry : std::filesystem::directory_iterator{FLOTILLA_CORPUS}) {
    const auto all = content(entry.path());
    const auto at = all.find("\n---\n");
    EXPECT_NE(at, std::string::npos) << entry.path();
    pairs.emplace_back(all.substr(0, at), all.substr(at + 5));
  }
  std::ranges::sort(pairs);
  return pairs;
}

/// Where numbers, strings and whole elements of arrays stand in a JSON text.
struct Places {
  std::vector<std::pair<std::size_t, std::size_t>> numbers, strings, elements;  // [first, last)
};

bool in_number(char c) { return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E'; }

Places places_of(const std::string& text) {
  Places found;
  std::vector<std::pair<char, std::size_t>> open;  // bracket, begin of its element
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      const auto end = std::min(text.find('"', i + 1), text.size() - 1) + 1;
      if (text.compare(end, 1, ":") != 0) found.strings.emplace_back(i, end);
      i = end - 1;
    } else if (in_number(c)) {
      std::size_t end = i;
      while (end < text.size() && in_number(text[end])) ++end;
      found.numbers.emplace_back(i, end);
      i = end - 1;
    } else if (c == '[' || c == '{') {
      open.emplace_back(c, i + 1);
    } else if ((c == ',' || c == ']') && !open.empty() && open.back().first == '[') {
      if (i > open.back().second) found.elements.emplace_back(open.back().second, i);
      open.back().second = i + 1;
    }
    if ((c == ']' || c == '}') && !open.empty()) open.pop_back();
  }
  return found;
}

const std::vector<std::string> nasty{"0",         "1",    "2",   "3",    "-1",        "7",     "64",         "1e308",
                                     "1e-308",    "-0.0", "0.5", "1e18", "100000000", "65536", "2147483647", "4611686018427387904",
                                     "4294967296"};

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_{seed} {}

  std::string operator()(std::string text) {
    for (std::size_t times = 1 + below(3); times > 0; --times) {
      const auto places = places_of(text);
      switch (below(5)) {
        case 0: replace(text, places.numbers, nasty[below(nasty.size())]); break;
        case 1: replace(text, places.numbers, other(text, places.numbers)); break;
        case 2: replace(text, places.strings, other(text, places.strings)); break;
        case 3: replace(text, places.elements, other(text, places.elements)); break;
        default: repeat(text, places.elements);
      }
    }
    return text;
  }

 private:
  using Ranges = std::vector<std::pair<std::size_t, std::size_t>>;
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>{0, n - 1}(random_); }
  std::string other(const std::string& text, const Ranges& ranges) {
    if (ranges.empty()) return "";
    const auto [first, last] = ranges[below(ranges.size())];
    return text.substr(first, last - first);
  }
  void replace(std::string& text, const Ranges& ranges, const std::string& by) {
    if (ranges.empty()) return;
    const auto [first, last] = ranges[below(ranges.size())];
    text.replace(first, last - first, by);
  }
  void repeat(std::string& text, const Ranges& ranges) {
    if (ranges.empty()) return;
    const auto [first, last] = ranges[below(ranges.size())];
    text.insert(last, "," + text.substr(first, last - first));
  }
  std::mt19937 random_;
};

TEST(HostileForecast, TheCorpusIsAnswered) {
  int forecast = 0;
  for (const auto& [plan, profile] : corpus()) forecast += testing::forecast(plan, profile) ? 1 : 0;
  EXPECT_GE(forecast, 3);
}

TEST(HostileForecast, MutationsAreForecastOrRefused) {
  constexpr int rounds = 3000;
  const auto pairs = corpus();
  Mutator mutate{20};
  int forecast = 0;
  for (int i = 0; i < rounds; ++i) {
    auto [plan, profile] = pairs[static_cast<std::size_t>(i) % pairs.size()];
    if (i % 3 != 0) plan = mutate(std::move(plan));
    if (i % 3 != 1) profile = mutate(std::move(profile));
    try {
      forecast += testing::forecast(plan, profile) ? 1 : 0;
    } catch (const std::exception& error) {
      FAIL() << error.what() << "\n" << plan << "\n---\n" << profile;
    }
  }
  EXPECT_GT(forecast, rounds / 50);  // else the mutations never get past the reader
}

}  // namespace
}  // namespace flotilla::app
