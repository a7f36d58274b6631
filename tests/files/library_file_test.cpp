#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <random>

#include "flotilla/files/profile_file.hpp"
#include "flotilla/files/text_file.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

namespace flotilla::files::library_file_test {
namespace {

using tests::expect_refused;
using tests::replaced;

cluster::DeviceType device_type(const std::string& name) {
  cluster::DeviceType type;
  type.name = name;
  type.kind = cluster::DeviceKind::gpu;
  type.memory = {std::int64_t{40} << 30};
  type.source = "a citation";
  return type;
}

model::Config shape(const std::string& name) {
  model::Config config = model::built_in("opt-125m");
  config.name = name;
  return config;
}

Library example() {
  Library library;
  library.models = {shape("OPT-350"), shape("GPT-Neo-2.7")};
  cluster::Profile& p = library.profile;
  p.device_types = {device_type("A100-40"), device_type("V100-16")};
  p.layer_times = {{"OPT-350", "A100-40", 0, 1, 2, 4, Precision::fp32, {0.001}, {0.002}, {0.25}},
                   {"OPT-350", "A100-40", 1, 25, 2, 4, Precision::fp32, {0.01}, {0.02}, {0}},
                   {"OPT-350", "V100-16", 0, 1, 1, 1, Precision::fp16, {0.003}, {0.004}, {0.5}}};
  p.layer_sizes = {{"OPT-350", 0, 1, 1, 53'608'448, 4'198'400, 2'097'152, 2'097'152}};
  p.link_fits = {{"zone-a", "A100-40", 1, "zone-b", "V100-16", 4, -0.0024, 0.14, 1.11, {2.4e9}},
                 {"", "A100-40", 2, "", "A100-40", 2, 0.8, 16.4, 32.9, {2.5e11}}};
  p.egress_prices = {{"zone-a", "zone-b", 1e-11}, {"zone-a", "zone-a", 0}};
  p.zone_prices = {{"A100-40", "zone-a", 2.5, 0}, {"A100-40", "zone-b", 3, 16}};
  return library;
}

double fraction(std::mt19937_64& random) { return std::uniform_real_distribution{}(random); }

Library random_library(std::mt19937_64& random) {
  Library library = example();
  cluster::Profile& p = library.profile;
  for (auto& type : p.device_types) {
    if (random() % 2) type.peak_fp16 = {1e15 * fraction(random)};
    if (random() % 2) type.per_node = static_cast<int>(random() % 9);
    if (random() % 2) type.power_watts = 700 * fraction(random);
    if (random() % 2) type.usd_per_hour = 12 * fraction(random);
    if (random() % 2) type.billing_weight = fraction(random);
    if (random() % 2)
      type.efficiency = {0.5,
                         0.75,
                         1e9 * fraction(random),
                         {1e-6 * fraction(random)},
                         fraction(random),
                         0.25,
                         1e9 * fraction(random),
                         0.125,
                         fraction(random)};
  }
  for (auto& time : p.layer_times) time.forward = {fraction(random)}, time.backward = {fraction(random)}, time.update = {fraction(random)};
  for (auto& fit : p.link_fits) fit.a = fraction(random) - 0.5, fit.b = fraction(random) - 0.5, fit.c = 50 * fraction(random);
  for (auto& price : p.egress_prices) price.usd_per_byte = 1e-10 * fraction(random);
  p.links = {{cluster::LinkLevel::zone, "n1", "n2", {{{0}, {1e-6}, {1e9}}}, 0, 1 + static_cast<int>(random() % 8)}};
  if (random() % 4 == 0) library.models.clear();
  return library;
}

void refused(std::string_view from, std::string_view to, std::string_view part, std::string_view other) {
  const std::string text = replaced(library_to_json(example()), from, to);
  expect_refused([&] { library_from_json(text, "l.json"); }, part, other, "l.json");
}

TEST(LibraryFile, RoundTripsBitByBit) {
  std::mt19937_64 random{5};
  for (int i = 0; i < 100; ++i) {
    const Library library = random_library(random);
    const std::string text = library_to_json(library);
    const Library back = library_from_json(text, "l");
    ASSERT_EQ(back, library) << text;
    ASSERT_EQ(library_to_json(back), text);
    for (std::size_t t = 0; t < library.profile.layer_times.size(); ++t)
      ASSERT_EQ(std::bit_cast<std::uint64_t>(back.profile.layer_times[t].backward.value),
                std::bit_cast<std::uint64_t>(library.profile.layer_times[t].backward.value));
  }
}

TEST(LibraryFile, ReadsWhatItWritesOnDisk) {
  const tests::TemporaryFolder folder;
  const auto path = folder / "library.json";
  write_library(path, example());
  EXPECT_EQ(read_library(path), example());
  EXPECT_EQ(read_profile(path), example().profile);
}

TEST(LibraryFile, AProbesProfileHasNoneOfItsKeys) {
  cluster::Profile p;
  p.device_types = {device_type("A100-40")};
  p.links = {{cluster::LinkLevel::node, "n1", "n1", {{{0}, {1e-6}, {1e9}}}}};
  const Json document = Json::parse(profile_to_json(p), "p");
  EXPECT_EQ(document.keys(), (std::vector<std::string>{"format", "version", "model_fingerprint", "software", "measured_at", "device_types",
                                                       "devices", "links", "operation_times"}));
  EXPECT_EQ(document.at("device_types").items()[0].keys(),
            (std::vector<std::string>{"name", "kind", "memory_bytes", "peak_fp32_flops_per_s", "peak_bf16_flops_per_s",
                                      "memory_bandwidth_bytes_per_s", "source"}));
  EXPECT_FALSE(document.at("links").items()[0].has("lanes"));
}

TEST(LibraryFile, ARowTakesALine) {
  const std::string text = library_to_json(example());
  EXPECT_NE(text.find("\n        [0, 1, 2, 4, 0.001, 0.002, 0.25],\n        [1, 25, 2, 4, 0.01, 0.02, 0.0]\n"), std::string::npos) << text;
}

TEST(LibraryFile, ThePageShowsAValidLibrary) {
  const std::string page = read_text(std::filesystem::path{FLOTILLA_FORMATS} / "profile.md");
  const std::string lead = "## Libraries";
  const std::size_t start = page.find(lead);
  ASSERT_NE(start, std::string::npos);
  const Library library = library_from_json(tests::json_block(page.substr(start)), "profile.md");
  EXPECT_FALSE(library.models.empty());
  for (const std::string& key : Json::parse(library_to_json(library), "p").keys())
    EXPECT_NE(page.find("`" + key + "`"), std::string::npos) << key;
  const auto& p = library.profile;
  EXPECT_FALSE(p.layer_times.empty() || p.layer_sizes.empty() || p.link_fits.empty() || p.egress_prices.empty());
}

TEST(LibraryFile, RefusesByPointer) {
  const char* const row = "[0, 1, 2, 4, 0.001, 0.002, 0.25]";
  refused(row, "[0, 1, 2, 4, 0.001, 0.002]", "/layer_times/0/rows/0: ", "expected 7 cells");
  refused(row, "[0, 1, 2, 4, -0.001, 0.002, 0.25]", "/layer_times/0/rows/0/4: ", "at least 0");
  refused(row, "[0, 1, 2, 4, 1e300, 0.002, 0.25]", "/layer_times/0/rows/0/4: ", "at most");
  refused(row, "[0, 1, 2, 4, 0.001, null, 0.25]", "/layer_times/0/rows/0/5: ", "expected a number, got null");
  refused(row, "[1, 1, 2, 4, 0.001, 0.002, 0.25]", "/layer_times/0/rows/0/1: ", "at least 2");
  refused(row, "[0, 1, 0, 4, 0.001, 0.002, 0.25]", "/layer_times/0/rows/0/2: ", "at least 1");
  refused(row, "[0, 1, 2, 4.5, 0.001, 0.002, 0.25]", "/layer_times/0/rows/0/3: ", "expected an integer");
  refused("\"forward_s\"", "\"forward_ms\"", "/layer_times/0/columns: ", "forward_s");
  refused("\"device_type\": \"V100-16\"", "\"device_type\": \"V100\"", "/layer_times/1/device_type: ", "no such device type");
  refused("53608448", "-1", "/layer_sizes/0/rows/0/3: ", "at least 0");
  refused("\"from_type\": \"A100-40\"", "\"from_type\": \"A100\"", "/link_fits/0/from_type: ", "no such device type");
  refused("2.4e+09", "0", "/link_fits/0/rows/0/5: ", "at least");
  refused("-0.0024", "1e99", "/link_fits/0/rows/0/2: ", "at most");
  refused("1e-11", "-1e-11", "/egress_prices/0/usd_per_byte: ", "at least 0");
  refused("\"name\": \"GPT-Neo-2.7\"", "\"name\": \"OPT-350\"", "/models/1: ", "is listed twice");
  refused("\"blocks\": 12", "\"blocks\": 0", "/models/0: ", "blocks is 0");
  refused("\"source\"", "\"efficiency\": {\"matrix\": 0}, \"source\"", "/device_types/0/efficiency/matrix: ", "at least");
  refused("\"source\"", "\"efficiency\": {\"speed\": 1}, \"source\"", "/device_types/0/efficiency: ", "unknown key 'speed'");
  refused("\"source\"", "\"usd_per_hour\": -1, \"source\"", "/device_types/0/usd_per_hour: ", "at least 0");
  refused("\"zone\": \"zone-b\", \"usd_per_hour\"", "\"zone\": \"zone-a\", \"usd_per_hour\"", "/zone_prices/1/zone: ", "already");
  refused("\"usd_per_hour\": 2.5", "\"usd_per_hour\": -2.5", "/zone_prices/0/usd_per_hour: ", "at least 0");
  refused("\"egress_prices\"", "\"egress\"", "unknown key 'egress'", "egress_prices");
}

TEST(LibraryFile, LongListsAreRefused) {
  std::string rows = "[0, 1, 1, 1, 1, 1, 1]";
  std::string many = rows;
  for (int i = 0; i < 200'000; ++i) many += "," + rows;
  refused("[0, 1, 1, 53608448, 4198400, 2097152, 2097152]", many, "/layer_sizes/0/rows: ", "expected at most 200000");
}

}  // namespace
}  // namespace flotilla::files::library_file_test
