#include <cmath>
#include <random>

#include "fixture.hpp"
#include "flotilla/options/documents.hpp"

namespace flotilla::options {
namespace {

TEST(Values, AreShownAsPeopleWriteThem) {
  const std::pair<std::int64_t, const char*> sizes[] = {{0, "0B"},           {1, "1B"},           {1024, "1KiB"},
                                                        {1000, "1kB"},       {64 << 20, "64MiB"}, {3ll << 29, "1536MiB"},
                                                        {5ll << 30, "5GiB"}, {1536, "1536B"},     {2'000'000, "2MB"}};
  for (const auto& [count, shown] : sizes) {
    Fields f;
    f.memory = {count};
    EXPECT_EQ(table_of(f).describe("device.memory").value, shown);
  }
  const std::pair<double, const char*> durations[] = {{0, "0s"},     {10, "10s"},    {600, "10min"},  {5400, "90min"}, {7200, "2h"},
                                                      {86400, "1d"}, {0.005, "5ms"}, {1.5, "1500ms"}, {1e-6, "1us"}};
  for (const auto& [seconds, shown] : durations) {
    Fields f;
    f.deadline = {seconds};
    EXPECT_EQ(table_of(f).describe("device.deadline").value, shown);
  }
}

/// Whatever the fields hold, the configuration that is printed reads back as the same values.
TEST(Values, TheConfigurationReadsBackAsItself) {
  std::mt19937_64 random{20240607};
  std::uniform_real_distribution<double> exponent{-12, 12}, unit{0, 1};
  for (int round = 0; round < 300; ++round) {
    Fields f;
    f.steps = 1 + static_cast<int>(random() % 1000000);
    f.seed = static_cast<std::int64_t>(random());
    f.batch = 1 + static_cast<std::int64_t>(random() % 4096);
    f.rate = std::nextafter(unit(random), 0.5);
    if (random() % 2) f.dropout = unit(random) * 0.99;
    f.replan = random() % 2;
    f.name = random() % 2 ? "a \"quoted\" \\ name" : "caf\xc3\xa9 # not a comment";
    f.file = random() % 2 ? "" : "p.json";
    for (std::uint64_t i = random() % 4; i > 0; --i) f.train.push_back("file " + std::to_string(random() % 100) + ".txt");
    for (std::uint64_t i = random() % 4; i > 0; --i) f.cuts.push_back(static_cast<int>(random() % 100));
    f.memory = {static_cast<std::int64_t>(random() % (1ull << (random() % 53)))};
    f.deadline = {std::pow(10, exponent(random))};
    f.limit = {std::pow(10, exponent(random) + 12)};
    f.colour = random() % 2 ? Colour::red : Colour::green;
    if (random() % 2) f.budget = UsDollars{std::pow(10, exponent(random))};
    f.slack = {random() % 2 ? unit(random) : 0.01 * static_cast<double>(random() % 100)};
    const std::string toml = to_toml(table_of(f));

    Fields back;
    auto table = table_of(back);
    ASSERT_NO_THROW(table.read_toml(toml, "printed.toml")) << toml;
    EXPECT_EQ(std::tie(back.steps, back.seed, back.batch, back.rate, back.dropout, back.replan, back.name, back.file),
              std::tie(f.steps, f.seed, f.batch, f.rate, f.dropout, f.replan, f.name, f.file))
        << toml;
    EXPECT_EQ(std::tie(back.train, back.cuts, back.memory, back.deadline, back.limit, back.colour, back.budget),
              std::tie(f.train, f.cuts, f.memory, f.deadline, f.limit, f.colour, f.budget))
        << toml;
    EXPECT_DOUBLE_EQ(back.slack.value, f.slack.value) << toml;
  }
}

TEST(Values, SharesAreShownInPercent) {
  for (const auto& [share, shown] : std::vector<std::pair<double, const char*>>{{0, "0%"}, {0.07, "7%"}, {0.29, "29%"}, {0.005, "0.5%"}}) {
    Fields f;
    f.slack = {share};
    EXPECT_EQ(table_of(f).describe("device.slack").value, shown);
  }
  EXPECT_STREQ(command_line_error({"--device.slack", "5"}).what(),
               "--device.slack: '5' has no unit; expected a percentage (%) of at most 100%; write --device.slack 5%");
  EXPECT_STREQ(command_line_error({"--device.budget", "0usd"}).what(),
               "--device.budget: expected an amount with its unit (usd) above 0usd, got '0usd'; write for example --device.budget 1.2usd");
}

TEST(Values, HugeOnesAreRefused) {
  for (const char* duration : {"1e308d", "inf", "nan", "-1s", "1e999s"})
    EXPECT_EQ(command_line_error({"--device.deadline", duration}).kind(), ErrorKind::usage) << duration;
  for (const char* size : {"99999999TiB", "1e30B", "-1B", "GiB", "1 GiB x"})
    EXPECT_EQ(command_line_error({"--device.memory", size}).kind(), ErrorKind::usage) << size;
  for (const char* number : {"1e999", "0x10", "1,5", " 1", "1 ", ""})
    EXPECT_EQ(command_line_error({"--training.learning-rate", number}).kind(), ErrorKind::usage) << number;
}

TEST(Values, ControlCharactersInTextAreRefusedAndShownHarmlessly) {
  const auto error = toml_error("[model]\nname = \"a\\u0000b\\u001b[31m\"\n");
  const std::string message = error.what();
  EXPECT_NE(message.find("without control characters"), std::string::npos) << message;
  for (const char c : message) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
}

}  // namespace
}  // namespace flotilla::options
