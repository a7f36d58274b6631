#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <sstream>

#include "flotilla/base/text.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/files/text_file.hpp"
#include "support/temporary_folder.hpp"
#include "support/tier.hpp"

/// Words of sites for devices: what each means, and that none means a device that it contradicts.
namespace flotilla::files::device_words_test {
namespace {

using cluster::CatalogueEntry;
using cluster::read_device_word;
using Words = std::vector<std::string>;

constexpr double gibi = 1024.0 * 1024.0 * 1024.0;

const cluster::Catalogue& built_in() {
  static const auto catalogue = built_in_catalogue();
  return catalogue;
}

std::string meaning_of(const std::string& word) {
  const auto read = read_device_word(built_in(), word);
  if (read.slice) return "slice";
  std::string words;
  for (const auto* entry : read.may_be) words += (words.empty() ? "" : " ") + entry->name;
  return words.empty() ? "unknown" : words;
}

std::vector<std::pair<std::string, std::string>> words_of_sites() {
  std::vector<std::pair<std::string, std::string>> all;
  std::istringstream lines{read_text(FLOTILLA_DEVICE_WORDS)};
  for (std::string line; std::getline(lines, line);)
    if (const auto tab = line.find('\t'); tab != line.npos && line.front() != '#')
      all.emplace_back(line.substr(0, tab), line.substr(tab + 1));
  return all;
}

TEST(DeviceWords, OfSites) {
  const auto words = words_of_sites();
  EXPECT_GE(words.size(), 185u);
  for (const auto& [word, meaning] : words) EXPECT_EQ(meaning_of(word), meaning) << word;
}

TEST(DeviceWords, AHundredGpusByEveryName) {
  int gpus = 0;
  for (const auto& e : built_in()) {
    if (e.kind == cluster::DeviceKind::gpu) ++gpus;
    for (const auto& alias : e.aliases) EXPECT_EQ(cluster::find(built_in(), alias), &e) << alias;
    EXPECT_EQ(cluster::find(built_in(), e.name), &e) << e.name;
  }
  EXPECT_GE(gpus, 100);
}

/// Names of the driver, and what sites make of them.
std::vector<std::string> spellings(std::string name) {
  std::vector<std::string> all{name};
  for (auto& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  all.push_back(name);
  for (const char separator : {'_', '-'}) {
    all.push_back(name);
    for (auto& c : all.back())
      if (c == ' ') c = separator;
  }
  return all;
}

TEST(DeviceWords, HoweverANameIsSpelledItIsTheSame) {
  for (const auto& e : built_in())
    for (const auto& alias : e.aliases)
      for (const auto& word : spellings(alias)) EXPECT_EQ(meaning_of(word), e.name) << word;
}

bool is_in(const std::string& token, const Words& all) { return std::ranges::find(all, token) != all.end(); }

/// Runs of letters and runs of digits, in lower case: "A100-SXM4_80GB" is a 100 sxm 4 80 gb. The code under test knows no such thing.
Words tokens_of(std::string_view word) {
  Words all;
  char kind = 0;
  for (const char letter : word) {
    const auto c = static_cast<unsigned char>(letter);
    const char now = std::isdigit(c) != 0 ? 'd' : std::isalpha(c) != 0 ? 'a' : 0;
    const bool brand = !all.empty() && is_in(all.back(), {"nvidia", "tesla", "geforce", "instinct", "radeon"});  // "teslaV100"
    if (now != 0 && (now != kind || brand)) all.emplace_back();
    if (now != 0) all.back() += static_cast<char>(std::tolower(c));
    kind = now;
  }
  return all;
}

/// Tokens of the word without those of the name, which must all be there in their order; nothing where one is not.
std::optional<Words> beside(Words word, std::string_view name) {
  auto at = word.begin();
  for (const auto& token : tokens_of(name)) {
    if (is_in(token, {"nvidia", "amd", "intel", "tesla", "geforce", "instinct"})) continue;  // sites leave these out
    const auto whole = std::find(at, word.end(), token);
    at = whole != word.end()
             ? whole
             : std::find_if(at, word.end(), [&](const auto& other) { return other.starts_with(token) && std::isalpha(token[0]); });
    if (at == word.end()) return std::nullopt;
    at->erase(0, token.size());  // "titanxp" goes on
    if (at->empty()) at = word.erase(at);
  }
  return word;
}

/// Whether what stands beside a name is true of the device: its vendor, its form, its memory as vendors or drivers count it.
bool is_true(const Words& said, const CatalogueEntry& e) {
  static const std::map<std::string, std::string> forms{
      {"pcie", "PCIe"}, {"pci", "PCIe"},  {"sxm", "SXM"},       {"nvl", "NVL"},    {"oam", "OAM"},
      {"sff", "SFF"},   {"cube", "cube"}, {"server", "Server"}, {"maxq", "Max-Q"}, {"workstation", "Workstation"}};
  const bool amd = e.vendor == "AMD", intel = e.vendor == "Intel";
  for (std::size_t n = 0; n < said.size(); ++n) {
    const auto& token = said[n];
    if (is_in(token, {"nvidia", "tesla", "geforce"}) && !amd && !intel) continue;
    if ((is_in(token, {"amd", "instinct", "radeon"}) && amd) || (token == "intel" && intel)) continue;
    if (is_in(token,
              {"gpu", "gpus", "sku", "data", "center", "corporation", "edition", "generation", "hbm", "gddr", "mem", "g", "gb", "gib"}))
      continue;
    if (const auto form = forms.find(token); form != forms.end() && form->second == e.form) continue;
    if (token == "blackwell" && e.fp32.peak.source.find("Blackwell") != std::string::npos) continue;
    // "sxm4", "hbm3e": what stands behind them counts generations.
    if (n > 0 && is_in(said[n - 1], {"sxm", "hbm", "gddr"}) && token.size() == 1) continue;
    if (n > 1 && is_in(said[n - 2], {"hbm", "gddr"}) && is_in(token, {"e", "x"})) continue;
    const bool number = token.find_first_not_of("0123456789") == token.npos && token.size() < 5;
    if (!number || std::stod(token) < std::floor(e.memory.value / gibi) || std::stod(token) > std::round(e.memory.value / 1e9))
      return false;
  }
  return true;
}

/// The word has all of one of the device's names, and all else in it is true of the device.
bool is_said(const std::string& word, const CatalogueEntry& e) {
  Words names{e.name, e.family};
  names.insert(names.end(), e.aliases.begin(), e.aliases.end());
  return std::ranges::any_of(names, [&](const auto& name) {
    const auto said = name.empty() ? std::nullopt : beside(tokens_of(word.substr(word.find_last_of(":=") + 1)), name);
    return said && is_true(*said, e);
  });
}

/// Whatever is put together of vendors, models that there are and that there are not, forms, sizes, slices and what sites put in front.
TEST(DeviceWords, NoWordIsADeviceThatItContradicts) {
  std::mt19937 random{41};
  const auto one_of = [&](const Words& all) -> const std::string& { return all[random() % all.size()]; };
  Words models{"a100x",   "b100",  "rtx",    "quadro",     "titan",       "gtx 750", "t400",     "quadro k620",
               "a10m",    "v100l", "l2",     "radeon vii", "rx 7900 xtx", "gaudi2",  "max 1450", "mi300",
               "h100 80", "a1000", "rtx 40", "a",          "h100s",       "l40 s",   "t40"};
  for (const auto& e : built_in()) {
    models.insert(models.end(), {e.name, e.name, e.family.empty() ? e.name : e.family});
    models.insert(models.end(), e.aliases.begin(), e.aliases.end());
  }
  const Words front{"",    "",      "",       "",    "nvidia",   "tesla",        "NVIDIA", "geforce",
                    "amd", "intel", "quadro", "gpu", "GPU_SKU:", "nvidia tesla", "2x"};
  const Words behind{"",     "",      "11gb",  "12",         "15gb", "16gb",  "17",         "24gb",          "32GB",  "40gb", "48g",
                     "64gb", "80gb",  "80",    "94gb",       "96gb", "141gb", "192",        "pcie",          "PCIE",  "sxm",  "sxm4",
                     "nvl",  "oam",   "super", "ti",         "s",    "d",     "x",          "hbm3",          "hbm2e", "2",    "8",
                     "ada",  "max-q", "maxq",  "laptop gpu", "x2",   "v2",    "generation", "server edition"};
  const Words slices{"1g.10gb", "2g_20gb", "1c.3g.20gb", "mig", "mig-1g.5gb", "7g.80gb", "1g.24gb+me"},
      between{"_", "-", "", ".", " ", "/"};
  int known = 0, cut = 0;
  std::vector<std::string> words;
  for (const auto& [word, meaning] : words_of_sites()) words.push_back(word);
  const int rounds = tests::of_tier(8000, 200000);
  for (int round = 0; round < rounds; ++round) {
    std::string word = one_of(front);
    const auto add = [&](const std::string& more) {
      const bool letters = !word.empty() && std::isalpha(word.back()) && std::isalpha(more.front());
      const auto& sign = one_of(between);
      word += (sign.empty() && letters ? "_" : sign) + more;
    };
    add(one_of(models));
    for (auto more = random() % 3; more > 0; --more) add(one_of(behind));
    const bool slice = random() % 16 == 0;
    if (slice) word += one_of({"_", "-", "."}) + one_of(slices);
    if (random() % 4 == 0) std::ranges::transform(word, word.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    EXPECT_TRUE(!slice || read_device_word(built_in(), word).slice) << word;
    words.push_back(word);
  }
  for (const auto& word : words) {
    const auto read = read_device_word(built_in(), word);
    cut += read.slice ? 1 : 0;
    known += read.may_be.empty() ? 0 : 1;
    EXPECT_FALSE(read.slice && !read.may_be.empty()) << word;
    for (const auto* entry : read.may_be)
      EXPECT_TRUE(entry->kind == cluster::DeviceKind::cpu || is_said(word, *entry)) << word << " is read as " << entry->name;
    EXPECT_TRUE(std::ranges::is_sorted(read.may_be, {}, [](const auto* e) { return e->memory.value; })) << word;
  }
  EXPECT_GT(known, rounds / 5);
  EXPECT_GT(cut, rounds / 20);
}

TEST(DeviceWords, HostileWordsAreUnknown) {
  for (const std::string& word :
       {std::string{}, std::string(1 << 20, 'a'), std::string{"a100\0b", 6}, std::string{"$(touch x)"}, std::string{"a100;"},
        std::string{"a100_99999999999999999999gb"}, std::string{"a100_040gb"}, std::string{"-_-"}})
    EXPECT_EQ(meaning_of(word), "unknown");
}

/// docs/formats/device-names.md, from the catalogue and the list of words.
std::string page() {
  std::ostringstream out;
  out << "# Names of devices\n\nWritten by `tests/files/device_words_test.cpp` from the [hardware catalogue](catalogue.md) and\n"
         "`tests/files/device_words.txt`: `FLOTILLA_UPDATE=1` rewrites it. Gres words of Slurm, driver names and `--pool` are read by this one table.\n\n"
         "## Types\n\n| type | memory, GB | form | other names | memory and peaks from |\n|---|---|---|---|---|\n";
  for (const auto& e : built_in()) {
    std::string aliases = e.family;
    for (const auto& alias : e.aliases) aliases += (aliases.empty() ? "" : ", ") + alias;
    out << "| " << e.name << " | " << std::llround(e.memory.value / 1e9) << " | " << e.form << " | " << aliases << " | "
        << e.fp32.peak.source << " |\n";
  }
  out << "\n## Words of sites\n\nOf several types the first is assumed, unless a feature of the node tells more; a note names the others.\n\n"
         "| word | meaning |\n|---|---|\n";
  for (const auto& [word, meaning] : words_of_sites()) out << "| `" << word << "` | " << meaning_of(word) << " |\n";
  return out.str();
}

TEST(DeviceWords, ThePageIsTheTable) {
  const auto file = std::filesystem::path{FLOTILLA_FORMATS} / "device-names.md";
  if (std::getenv("FLOTILLA_UPDATE") != nullptr) std::ofstream{file} << page();
  EXPECT_EQ(read_text(file), page()) << "run this test with FLOTILLA_UPDATE=1 and commit the page";
}

}  // namespace
}  // namespace flotilla::files::device_words_test
