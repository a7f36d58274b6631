#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "flotilla/files/forecast_file.hpp"
#include "flotilla/files/hugging_face.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/planning_file.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/files/text_file.hpp"
#include "support/refusal.hpp"

// Replays the fuzzers' corpus and its random mutations: every reader either succeeds or throws Error{bad_input} of one line.
namespace flotilla::files::hostile_test {
namespace {

struct Reader {
  const char* name;
  void (*read)(std::string_view);
};

const std::vector<Reader> readers{
    {"plan", [](std::string_view text) { plan_from_json(text, "input"); }},
    {"profile", [](std::string_view text) { profile_from_json(text, "input"); }},
    {"forecast", [](std::string_view text) { forecast_from_json(text, "input"); }},
    {"planning", [](std::string_view text) { planning_from_json(text, "input"); }},
    {"hugging_face", [](std::string_view text) { hugging_face_config_from_json(text, "input", "model"); }},
};

/// Whether `text` was accepted.
bool feed(const Reader& reader, const std::string& text) {
  try {
    reader.read(text);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
    EXPECT_EQ(std::string_view{error.what()}.find('\n'), std::string_view::npos) << error.what();
    EXPECT_LT(std::string_view{error.what()}.size(), 2000u);
    return false;
  }
}

std::vector<std::string> corpus(const Reader& reader) {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator{std::filesystem::path{FLOTILLA_CORPUS} / reader.name})
    texts.push_back(read_text(entry.path()));
  std::ranges::sort(texts);
  return texts;
}

const std::vector<std::string> nasty{
    "-1",   "0",       "1e308", "-0.0", "18446744073709551616", "2147483648", "null", "[]", "{}", "\"\"", "[[[", "}", ",", "\"",
    "\xff", "\\u0000", "true",  "NaN"};

/// A number elsewhere in the text takes the place of one here, or a few bytes change, vanish, repeat or turn nasty.
std::string mutate(std::string text, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>{0, n - 1}(random); };
  for (std::size_t times = 1 + below(3); times > 0 && !text.empty(); --times) {
    const std::size_t at = below(text.size()), length = std::min(text.size() - at, 1 + below(12));
    switch (below(6)) {
      case 0: text[at] = static_cast<char>(below(256)); break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, text.substr(below(text.size()), length)); break;
      case 3: text.insert(at, nasty[below(nasty.size())]); break;
      case 4: text.resize(at); break;
      default:
        if (const std::size_t digit = text.find_first_of("0123456789", at); digit != text.npos) {
          const std::size_t end = std::min(text.find_first_not_of("0123456789.e+-", digit), text.size());
          text.replace(digit, end - digit, nasty[below(8)]);
        }
    }
  }
  return text;
}

TEST(Hostile, TheCorpusIsAnswered) {
  for (const Reader& reader : readers) {
    int accepted = 0, refused = 0;
    for (const std::string& text : corpus(reader)) ++(feed(reader, text) ? accepted : refused);
    EXPECT_GT(accepted, 0) << reader.name;
    EXPECT_GT(refused, 0) << reader.name;
  }
}

TEST(Hostile, MutationsAreAnswered) {
  std::mt19937 random{20};
  for (const Reader& reader : readers) {
    const auto texts = corpus(reader);
    int refused = 0;
    for (int i = 0; i < 2500; ++i)
      if (!feed(reader, mutate(texts[static_cast<std::size_t>(i) % texts.size()], random))) ++refused;
    EXPECT_GT(refused, 500) << reader.name;
  }
}

TEST(Hostile, LongListsAreRefusedNotObeyed) {
  std::string devices = "0";
  for (int i = 1; i < 500'000; ++i) devices += "," + std::to_string(i);
  const std::string plan =
      R"({"format": "flotilla-plan", "version": 1, "model": "gpt2-tiny", "length": 8, "global_batch": 1, "precision": "fp32",
    "stages": [{"layers": [0, 4], "replicas": [{"quanta": 1, "sequences": 1, "tensor_parallel": 1, "devices": [)" +
      devices + "]}]}]}";
  tests::expect_refused([&] { plan_from_json(plan, "p"); }, "/stages/0/replicas/0/devices: names 500000 ranks");
}

}  // namespace
}  // namespace flotilla::files::hostile_test
