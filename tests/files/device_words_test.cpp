#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "flotilla/base/text.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/files/text_file.hpp"
#include "support/temporary_folder.hpp"

/// Words of sites for devices: what each means, and that none means a device that it contradicts.
namespace flotilla::files::device_words_test {
namespace {

using cluster::CatalogueEntry;
using cluster::read_device_word;

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

/// Sizes and forms that a word says by itself: read without the code under test.
bool contradicts(const std::string& word, const CatalogueEntry& e) {
  const auto folded_word = cluster::folded_name(word);
  std::string small;
  for (const char c : word) small += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto has = [&](const char* part) { return small.find(part) != small.npos; };
  if (has("pcie") && e.form != "PCIe") return true;
  if (has("sxm") && e.form != "SXM") return true;
  if (has("nvl") && e.form != "NVL") return true;
  for (std::size_t at = small.find("gb"); at != small.npos; at = small.find("gb", at + 1)) {
    std::size_t begin = at;
    while (begin > 0 && small[begin - 1] >= '0' && small[begin - 1] <= '9') --begin;
    if (begin == at || (at + 2 < small.size() && small[at + 2] >= '0' && small[at + 2] <= '9')) continue;
    const double said = std::stod(small.substr(begin, at - begin));
    // GH200's driver tells the processor's memory, too; vendors' gigabytes are those of 1000 or of 1024, less what ECC takes.
    const bool named = std::ranges::any_of(
        e.aliases, [&](const auto& alias) { return folded_word.find(cluster::folded_name(alias)) != folded_word.npos; });
    if (!named && (said * 1e9 < e.memory.value * 0.9 || said * gibi * 0.9 > e.memory.value * 1.1)) return true;
  }
  return false;
}

/// Whatever is put together of names, vendors, sizes, forms and counts.
TEST(DeviceWords, NoWordIsADeviceThatItContradicts) {
  std::mt19937 random{41};
  const auto one_of = [&](const std::vector<std::string>& all) { return all[random() % all.size()]; };
  std::vector<std::string> names;
  for (const auto& e : built_in()) {
    names.push_back(e.name);
    if (!e.family.empty()) names.push_back(e.family);
    names.insert(names.end(), e.aliases.begin(), e.aliases.end());
  }
  const std::vector<std::string> vendors{"", "", "nvidia_", "tesla_", "NVIDIA ", "geforce-", "amd_", "quadro_"},
      between{"_", "-", "", ".", " "},
      behind{"",     "16gb", "24gb", "32GB",    "40gb",       "48gb", "64gb",  "80gb",       "94gb", "96gb", "141gb",
             "pcie", "PCIE", "sxm",  "sxm4",    "sxm5",       "nvl",  "super", "ti",         "s",    "d",    "hbm3",
             "2",    "8",    "x",    "1g.10gb", "generation", "ada",  "max-q", "laptop gpu", "mig",  "x2"};
  int known = 0, slices = 0;
  for (int round = 0; round < 10000; ++round) {
    std::string word = one_of(vendors) + one_of(names);
    for (auto more = random() % 3; more > 0; --more) word += one_of(between) + one_of(behind);
    for (const auto& spelled : {word, spellings(word)[2]}) {
      const auto read = read_device_word(built_in(), spelled);
      slices += read.slice ? 1 : 0;
      EXPECT_FALSE(read.slice && !read.may_be.empty()) << spelled;
      EXPECT_TRUE(read.slice || spelled.find("1g.10gb") == spelled.npos || read.may_be.empty()) << spelled;
      for (const auto* entry : read.may_be) {
        ++known;
        EXPECT_FALSE(contradicts(spelled, *entry)) << spelled << " is read as " << entry->name;
      }
      EXPECT_TRUE(std::ranges::is_sorted(read.may_be, {}, [](const auto* e) { return e->memory.value; })) << spelled;
    }
  }
  EXPECT_GT(known, 3000);
  EXPECT_GT(slices, 300);
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
