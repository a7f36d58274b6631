#include "flotilla/files/catalogue_file.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <sstream>

#include "flotilla/cluster/relatives.hpp"
#include "flotilla/files/text_file.hpp"
#include "support/refusal.hpp"
#include "support/text.hpp"

namespace flotilla::files::catalogue_file_test {
namespace {

using cluster::Catalogue;
using cluster::CatalogueEntry;
using cluster::Figure;
using tests::expect_refused;
using tests::replaced;

const Catalogue& built_in() {
  static const Catalogue catalogue = built_in_catalogue();
  return catalogue;
}

const CatalogueEntry& entry(const char* name) {
  const auto* found = cluster::find(built_in(), name);
  if (!found) throw Error{ErrorKind::internal, text(name, " is not in the catalogue")};
  return *found;
}

std::vector<cluster::ProductFigures> products(const CatalogueEntry& e) { return {e.fp32, e.tf32, e.bf16, e.fp16}; }

/// Every figure that a plan without a profile needs.
std::vector<Figure> needed(const CatalogueEntry& e) {
  std::vector<Figure> all{e.memory,          e.memory_bandwidth, e.memory_share,      e.overlap,       e.launch,
                          e.power,           e.devices_per_node, e.node_pair_rate,    e.node_share,    e.node_latency,
                          e.network_latency, e.network_cards,    e.network_card_rate, e.network_share, e.link_error};
  for (const auto& kind : products(e))
    if (kind.peak.known()) all.insert(all.end(), {kind.peak, kind.matrix, kind.half, kind.relative_error});
  return all;
}

TEST(BuiltInCatalogue, HasEveryTypeThatWasAskedFor) {
  for (const char* name : {"H200",      "H100",     "H100-SXM", "H100-PCIe", "GH200",     "GH200-96GB", "GH-96",  "B200", "A100-40",
                           "A100-40GB", "A100-80",  "V100-16",  "V100-32",   "T4",        "L4",         "L40S",   "A10",  "RTX 2080",
                           "RTX-2080",  "RTX-3090", "RTX-4090", "Titan RTX", "Titan-RTX", "MI250X",     "MI300A", "CPU",  "cpu"})
    EXPECT_TRUE(cluster::find(built_in(), name)) << name;
}

TEST(BuiltInCatalogue, NvidiasCardsHaveTheirComputeCapability) {
  for (const auto& e : built_in()) {
    const bool theirs = e.kind == cluster::DeviceKind::gpu && e.vendor.empty();
    EXPECT_EQ(e.compute_capability.known(), theirs) << e.name;
    // bf16 came with 8.0, fp8 with 8.9.
    if (!theirs) continue;
    EXPECT_EQ(e.bf16.peak.known(), e.compute_capability.value >= 8) << e.name;
    EXPECT_TRUE(e.compute_capability.value >= 8.9 || !e.fp8.peak.known()) << e.name;
  }
}

TEST(BuiltInCatalogue, EveryFigureHasASource) {
  for (const auto& e : built_in()) {
    EXPECT_FALSE(e.description.empty()) << e.name;
    for (const Figure& figure : needed(e)) EXPECT_GT(figure.source.size(), 10u) << e.name << ": " << figure.value;
    EXPECT_TRUE(e.fp32.peak.known()) << e.name;
  }
}

TEST(BuiltInCatalogue, NoNameStandsForTwoTypes) {
  for (const auto& e : built_in()) {
    EXPECT_EQ(cluster::find(built_in(), e.name), &e);
    for (const auto& alias : e.aliases) EXPECT_EQ(cluster::find(built_in(), alias), &e) << alias;
  }
}

TEST(BuiltInCatalogue, PeaksRiseAsOperandsShrink) {
  for (const auto& e : built_in()) {
    if (e.tf32.peak.known()) {
      EXPECT_GE(e.tf32.peak.value, e.fp32.peak.value) << e.name;
    }
    for (const auto& half : {e.bf16.peak, e.fp16.peak})
      if (half.known()) {
        EXPECT_GE(half.value, std::max(e.fp32.peak.value, e.tf32.peak.value)) << e.name;
      }
    if (e.fp8.peak.known()) {
      EXPECT_GE(e.fp8.peak.value, e.bf16.peak.value) << e.name;
    }
    if (e.bf16.peak.known() && e.fp16.peak.known()) {
      // The cores of MI100 multiply bf16 at half the rate.
      EXPECT_EQ(e.bf16.peak.value, e.name == "MI100" ? e.fp16.peak.value / 2 : e.fp16.peak.value) << e.name;
    }
  }
}

/// "-": nobody states it.
double stated(const std::string& word) { return word == "-" ? 0 : std::stod(word); }

void expect_near(const Figure& figure, double made_of, double tolerance, const std::string& what) {
  if (made_of > 0) {
    EXPECT_NEAR(figure.value / made_of, 1, tolerance) << what << ": " << figure.value << ", its parts make " << made_of;
  }
}

/// A line of device_chips.txt.
void expect_made_of(const std::string& line) {
  constexpr double rounding = 0.025;  // sheets round, and clocks of one chip differ between its boards
  std::istringstream words{line};
  std::string name, cores, full, half, clocks, bits, rate;
  words >> name >> cores >> full >> half >> clocks >> bits >> rate;
  ASSERT_TRUE(words) << line;
  const CatalogueEntry& e = entry(name.c_str());
  const auto slash = clocks.find('/');
  const std::string tensor_clock = slash == clocks.npos ? clocks : clocks.substr(slash + 1);
  expect_near(e.fp32.peak, stated(cores) * stated(full) * stated(clocks.substr(0, slash)) * 1e6, rounding, name + " fp32");
  expect_near(e.fp16.peak, stated(cores) * stated(half) * stated(tensor_clock) * 1e6, rounding, name + " fp16");
  expect_near(e.memory_bandwidth, stated(bits) * stated(rate) * 1e9 / 8, rounding, name + " memory bandwidth");
}

TEST(BuiltInCatalogue, RatesAreThoseThatChipsAndClocksMake) {
  std::set<std::string> listed;
  std::istringstream lines{read_text(std::filesystem::path{FLOTILLA_DEVICE_WORDS}.parent_path() / "device_chips.txt")};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    expect_made_of(line);
    listed.insert(line.substr(0, line.find('\t')));
  }
  for (const auto& e : built_in()) EXPECT_EQ(listed.count(e.name), e.kind == cluster::DeviceKind::gpu ? 1u : 0u) << e.name;
}

TEST(BuiltInCatalogue, RatesDoubleWhereOperandsAreHalf) {
  constexpr double rounding = 0.05;
  for (const auto& e : built_in()) {
    if (e.tf32.peak.known() && e.bf16.peak.known()) expect_near(e.bf16.peak, 2 * e.tf32.peak.value, rounding, e.name + " bf16 over TF32");
    if (e.fp8.peak.known()) expect_near(e.fp8.peak, 2 * e.bf16.peak.value, rounding, e.name + " fp8 over bf16");
  }
}

TEST(BuiltInCatalogue, ARelativeIsAMeasuredType) {
  for (const auto& e : built_in()) {
    const auto* relative = cluster::nearest_relative(e, built_in());
    if (relative == nullptr) continue;
    const auto& half = relative->bf16.peak.known() ? relative->bf16 : relative->fp16;
    EXPECT_EQ(half.relative_error.source.find("Estimate"), std::string::npos) << e.name << " from " << relative->name;
    EXPECT_FALSE(half.relative_error.source.starts_with("as of ")) << e.name << " from " << relative->name;
  }
}

TEST(BuiltInCatalogue, FiguresAreOfThePlausibleUnit) {
  for (const auto& e : built_in()) {
    if (e.kind == cluster::DeviceKind::cpu) continue;
    EXPECT_TRUE(e.fp32.peak.value > 4e12 && e.fp32.peak.value < 2e14) << e.name;
    EXPECT_TRUE(e.memory.value > 6e9 && e.memory.value < 3e11) << e.name;
    EXPECT_TRUE(e.memory_bandwidth.value > 1.5e11 && e.memory_bandwidth.value < 1e13) << e.name;
    EXPECT_TRUE(e.node_pair_rate.value > 1e10 && e.node_pair_rate.value < 1e12) << e.name;
    EXPECT_TRUE(e.network_card_rate.value >= 1.25e9 && e.network_card_rate.value <= 1e11) << e.name;
    EXPECT_TRUE(e.power.value > 50 && e.power.value <= 1400) << e.name;
    if (e.node_device_rate.known()) {
      EXPECT_LE(e.node_pair_rate.value, e.node_device_rate.value) << e.name;
    }
    EXPECT_LE(e.network_cards.value, 2 * e.devices_per_node.value) << e.name;
  }
}

TEST(BuiltInCatalogue, GenerationsFollowOneAnother) {
  const auto bandwidth = [](const char* name) { return entry(name).memory_bandwidth.value; };
  EXPECT_GT(bandwidth("B200"), bandwidth("H200"));
  EXPECT_GT(bandwidth("H200"), bandwidth("GH200"));
  EXPECT_GT(bandwidth("GH200"), bandwidth("H100"));
  EXPECT_GT(bandwidth("H100"), bandwidth("H100-PCIe"));
  EXPECT_GT(bandwidth("A100-80"), bandwidth("A100-40"));
  EXPECT_GT(bandwidth("A100-40"), bandwidth("V100-32"));
  EXPECT_EQ(entry("H200").bf16.peak.value, entry("H100").bf16.peak.value);  // the same chip
  EXPECT_GT(entry("H100").bf16.peak.value, entry("H100-PCIe").bf16.peak.value);
  EXPECT_GT(entry("V100-32").memory.value, entry("V100-16").memory.value);
  for (const char* name : {"V100-16", "V100-32", "T4", "RTX-2080-Ti", "Titan-RTX"}) EXPECT_FALSE(entry(name).bf16.peak.known()) << name;
}

TEST(BuiltInCatalogue, CompletesAnEmptyProfile) {
  std::vector<std::string> names;
  for (const auto& e : built_in()) names.push_back(e.name);
  const auto profile = cluster::complete_from_catalogue({}, built_in(), names);
  EXPECT_EQ(profile.device_types.size(), names.size());
  EXPECT_EQ(profile.links.size(), names.size() * (names.size() + 2));  // one inside, n (n + 1) / 2 pairs at two levels
  for (const auto& link : profile.links) EXPECT_TRUE(std::isfinite(cluster::transfer_time(link, {1 << 20}).value)) << link.from;
}

TEST(CatalogueFile, ThePageShowsAValidCatalogue) {
  const std::string page = read_text(std::filesystem::path{FLOTILLA_FORMATS} / "catalogue.md");
  const Catalogue catalogue = catalogue_from_json(tests::json_block(page), "catalogue.md");
  ASSERT_EQ(catalogue.size(), 1u);
  for (const Figure& figure : needed(catalogue[0])) EXPECT_TRUE(figure.known());
  const Json block = Json::parse(tests::json_block(page), "page");
  for (std::string key : block.at("device_types").items()[0].at("figures").keys()) {
    for (const std::string_view operands : {"fp32", "bf16", "fp8"})
      if (const auto at = key.find(operands); at != std::string::npos) key.replace(at, operands.size(), "FP");
    EXPECT_NE(page.find("`" + key + "`"), std::string::npos) << key;
  }
}

constexpr std::string_view example = R"({
  "format": "flotilla-catalogue", "version": 1,
  "sources": {"sheet": "a data sheet, 2020"},
  "device_types": [
    {"name": "X1", "aliases": ["X-One"], "kind": "gpu", "description": "a card", "figures": {
      "memory_bytes": {"value": 1000, "source": "sheet"},
      "memory_bandwidth_bytes_per_s": {"value": 1e11, "source": "sheet"},
      "peak_fp32_flops_per_s": {"value": 1e12, "source": "sheet"},
      "matrix_fp32_share": {"value": 0.5, "source": "sheet"}}},
    {"name": "X2", "kind": "gpu", "description": "a card", "figures": {
      "memory_bytes": {"value": 1000, "source": "sheet"},
      "memory_bandwidth_bytes_per_s": {"value": 1e11, "source": "sheet"},
      "peak_fp32_flops_per_s": {"value": 1e12, "source": "sheet"}}}]
})";

void refused(std::string_view from, std::string_view to, std::string_view part, std::string_view other) {
  const std::string text = replaced(std::string{example}, from, to);
  expect_refused([&] { catalogue_from_json(text, "c.json"); }, part, other, "c.json");
}

TEST(CatalogueFile, ReadsFiguresWithTheirSources) {
  const Catalogue catalogue = catalogue_from_json(example, "c.json");
  ASSERT_EQ(catalogue.size(), 2u);
  EXPECT_EQ(catalogue[0].fp32.matrix, (Figure{0.5, "a data sheet, 2020"}));
  EXPECT_EQ(catalogue[0].aliases, std::vector<std::string>{"X-One"});
  EXPECT_FALSE(catalogue[1].fp32.matrix.known());
  EXPECT_FALSE(catalogue[0].tf32.peak.known());
}

TEST(CatalogueFile, RefusesByPointer) {
  refused("\"version\": 1", "\"version\": 2", "/version: version 2 is unknown", "flotilla-catalogue");
  refused("flotilla-catalogue", "flotilla-profile", "/format: ", "flotilla-catalogue");
  refused("\"source\": \"sheet\"", "\"source\": \"seet\"", "/device_types/0/figures/memory_bytes/source: no such source", "/sources");
  refused("\"value\": 1000", "\"value\": 0", "/device_types/0/figures/memory_bytes/value: ", "at least 1");
  refused("\"value\": 1e12", "\"value\": 1e300", "/device_types/0/figures/peak_fp32_flops_per_s/value: ", "at most");
  refused("\"value\": 0.5", "\"value\": 1.5", "/device_types/0/figures/matrix_fp32_share/value: ", "1");
  refused("\"value\": 0.5", "\"value\": \"half\"", "/device_types/0/figures/matrix_fp32_share/value: ", "number");
  refused("matrix_fp32_share", "matrix_fp33_share", "/device_types/0/figures: unknown key", "'matrix_fp32_share'");
  refused("matrix_fp32_share", "matrix_bf16_share", "/device_types/0/figures: 'matrix_bf16_share' requires", "peak_bf16_flops_per_s");
  refused("\"memory_bytes\"", "\"power_watts\"", "/device_types/0/figures: 'memory_bytes' is missing", "every type");
  refused("\"kind\": \"gpu\"", "\"kind\": \"tpu\"", "/device_types/0/kind: ", "cpu, gpu");
  refused("\"name\": \"X2\"", "\"name\": \"x-one\"", "/device_types/1/name: ", "is listed twice");
  refused("\"name\": \"X2\"", "\"name\": \"\"", "/device_types/1/name: ", "is empty");
  refused("a data sheet, 2020", "", "/sources/sheet: ", "is empty");
}

TEST(CatalogueFile, CorruptedCataloguesAreReadOrRefusedWithOneLine) {
  std::mt19937_64 random{3};
  const std::string pool = "{}[]\",:-+.eE0123456789abcflnrtu \n";
  int accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text{example};
    for (std::uint64_t edits = 1 + random() % 4; edits > 0; --edits) {
      const auto at = random() % text.size();
      switch (random() % 4) {
        case 0: text.erase(at, 1 + random() % 20); break;
        case 1: text.insert(at, 1, pool[random() % pool.size()]); break;
        case 2: text[at] = pool[random() % pool.size()]; break;
        default: text.insert(at, text.substr(random() % text.size(), random() % 60)); break;
      }
    }
    try {
      for (const auto& e : catalogue_from_json(text, "c.json")) {
        ++accepted;
        const auto type = cluster::device_type(e);
        EXPECT_TRUE(type.peak_fp32.value > 0 && std::isfinite(type.peak_fp32.value) && type.efficiency.matrix > 0) << text;
      }
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_TRUE(error.kind() == ErrorKind::bad_input && what.find('\n') == std::string::npos && what.starts_with("c.json")) << what;
    }
  }
  EXPECT_GT(accepted, 10);
}

}  // namespace
}  // namespace flotilla::files::catalogue_file_test
