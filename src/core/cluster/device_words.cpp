#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include "flotilla/cluster/catalogue.hpp"

namespace flotilla::cluster {
namespace {

constexpr std::string_view separators = "-_. ()/";

bool separates(char c) { return separators.find(c) != separators.npos; }
bool digit(char c) { return c >= '0' && c <= '9'; }

std::string lower(std::string_view text) {
  std::string out{text};
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

/// A form in a word and what the catalogue calls it. The longer ones stand first where one begins another.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> forms{{{"sxm", "SXM"},
                                                                               {"pcie", "PCIe"},
                                                                               {"pci", "PCIe"},
                                                                               {"nvl", "NVL"},
                                                                               {"oam", "OAM"},
                                                                               {"sff", "SFF"},
                                                                               {"maxq", "Max-Q"},
                                                                               {"server", "Server"},
                                                                               {"workstation", "Workstation"},
                                                                               {"cube", "cube"}}};

/// Words that tell no card from another.
constexpr std::array<std::string_view, 6> idle_words{"edition", "generation", "blackwell", "gpu", "gb", "mem"};

/// What is said beside a card's name.
struct Beside {
  std::string_view form;
  std::optional<int> gigabytes;
};

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

/// A digit that belongs to the word before it: "sxm4", "hbm2e"; not the size of "hbm80g".
void take_generation(std::string_view& text) {
  if (!text.empty() && digit(text.front()) && (text.size() == 1 || !digit(text[1]))) text.remove_prefix(1);
}

bool take_form(std::string_view& text, Beside& said) {
  for (const auto& [word, form] : forms) {
    if (!text.starts_with(word)) continue;
    if (!said.form.empty() && said.form != form) return false;  // what is left must not be read as if it had not been there
    take(text, word);
    if (form == "SXM") take_generation(text);
    said.form = form;
    return true;
  }
  return false;
}

bool take_size(std::string_view& text, Beside& said) {
  int gigabytes = 0;
  const auto [rest, failed] = std::from_chars(text.data(), text.data() + text.size(), gigabytes);
  if (failed != std::errc{} || text.front() == '0' || (said.gigabytes && *said.gigabytes != gigabytes)) return false;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  if (!take(text, "gib") && !take(text, "gb")) take(text, "g");
  said.gigabytes = gigabytes;
  return true;
}

bool take_memory_kind(std::string_view& text) {
  if (!take(text, "hbm") && !take(text, "gddr")) return false;
  take_generation(text);
  if (!take(text, "e")) take(text, "x");
  return true;
}

/// Nothing where the text holds anything but forms, sizes and words that tell nothing.
std::optional<Beside> read_beside(std::string_view text) {
  Beside said;
  while (!text.empty()) {
    if (separates(text.front())) {
      text.remove_prefix(1);
      continue;
    }
    const bool idle = std::ranges::any_of(idle_words, [&](std::string_view word) { return take(text, word); });
    if (!idle && !take_memory_kind(text) && !take_form(text, said) && !take_size(text, said)) return std::nullopt;
  }
  return said;
}

/// Vendors tell one card by gigabytes of either kind, and drivers by what error correction leaves of them.
bool agrees(const CatalogueEntry& entry, const Beside& said) {
  constexpr double gibi = 1024.0 * 1024.0 * 1024.0, giga = 1e9;
  if (!said.form.empty() && said.form != entry.form) return false;
  return !said.gigabytes ||
         (*said.gigabytes >= std::floor(entry.memory.value / gibi) && *said.gigabytes <= std::round(entry.memory.value / giga));
}

/// What stands behind the name in the word, however both are separated; nothing where the word does not begin with it. Digits that the
/// name parts, the word must part, too, and none else: "mi5016gb" is no MI50-16, "rtx 40 80gb" no RTX-4080.
std::optional<std::string_view> behind(std::string_view word, std::string_view name) {
  std::size_t at = 0;
  bool parted = false;
  for (char c : name) {
    if (separates(c)) {
      parted = true;
      continue;
    }
    const auto begin = at;
    while (at < word.size() && separates(word[at])) ++at;
    if (at == word.size() || word[at] != std::tolower(static_cast<unsigned char>(c))) return std::nullopt;
    if (begin > 0 && digit(word[begin - 1]) && digit(c) && parted != (at > begin)) return std::nullopt;
    parted = false;
    ++at;
  }
  return word.substr(at);
}

/// "1g.10gb", "1c.3g.40gb", "MIG": a part of a card.
bool is_slice(std::string_view word) {
  for (std::size_t at = 0; at + 2 < word.size(); ++at) {
    if (word.substr(at).starts_with("mig") && (at == 0 || separates(word[at - 1]))) return true;
    const bool begins = at == 0 || !digit(word[at - 1]);
    if (!begins || word[at] < '1' || word[at] > '7' || word[at + 1] != 'g') continue;
    auto size = at + 2;
    if (separates(word[size])) ++size;
    if (size < word.size() && digit(word[size])) return true;
  }
  return false;
}

bool begins_with(std::string_view word, std::string_view small) {
  return word.size() >= small.size() &&
         std::ranges::equal(word.substr(0, small.size()), small, {}, [](unsigned char c) { return std::tolower(c); });
}

/// Whether the brands in the word are of the card's vendor.
bool is_of_its_vendor(const CatalogueEntry& entry, std::string_view word) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> brands{{{"nvidia", "NVIDIA"},
                                                                                 {"tesla", "NVIDIA"},
                                                                                 {"geforce", "NVIDIA"},
                                                                                 {"amd", "AMD"},
                                                                                 {"instinct", "AMD"},
                                                                                 {"radeon", "AMD"},
                                                                                 {"intel", "Intel"}}};
  const std::string_view vendor = entry.vendor.empty() ? "NVIDIA" : std::string_view{entry.vendor};
  return entry.kind == DeviceKind::cpu ||
         std::ranges::all_of(brands, [&](const auto& brand) { return word.find(brand.first) == word.npos || brand.second == vendor; });
}

/// The word, then without one vendor's name in front after the other; what sites put in front ("gpu_", "GPU_SKU:") is no name either.
std::vector<std::string_view> beginnings(std::string_view word) {
  constexpr std::array<std::string_view, 12> vendors{"nvidia", "amd",         "intel", "tesla",  "geforce", "instinct",
                                                     "radeon", "corporation", "data",  "center", "gpus",    "gpu"};
  if (const auto colon = word.find_last_of(":="); colon != word.npos) word.remove_prefix(colon + 1);
  std::vector<std::string_view> all{word};
  for (bool more = true; more;) {
    more = false;
    while (!word.empty() && separates(word.front())) word.remove_prefix(1);
    for (const auto vendor : vendors)
      if (word.size() > vendor.size() + 1 && begins_with(word, vendor)) {  // "teslaV100", too: what is left must be a name
        word.remove_prefix(vendor.size());
        all.push_back(word);
        more = true;
        break;
      }
  }
  return all;
}

bool is_same(std::string_view word, std::string_view name) {
  const auto rest = behind(word, name);
  return rest && std::ranges::all_of(*rest, separates);
}

/// Whether it is the entry's name or alias, with or without vendors' names in front of these.
bool names_exactly(const CatalogueEntry& entry, std::string_view word) {
  return is_same(word, entry.name) || std::ranges::any_of(entry.aliases, [&](const auto& alias) {
           return std::ranges::any_of(beginnings(alias), [&](const auto part) { return is_same(word, part); });
         });
}

void add_matches(std::vector<const CatalogueEntry*>& found, const CatalogueEntry& entry, std::string_view word) {
  std::vector<std::string_view> names{entry.name, entry.family};
  names.insert(names.end(), entry.aliases.begin(), entry.aliases.end());
  for (const auto name : names) {
    const auto rest = name.empty() ? std::nullopt : behind(word, name);
    // "l2048gb" is no L20 with 48 GB, nor an L2048.
    if (rest && !rest->empty() && digit(name.back()) && digit(rest->front())) continue;
    const auto said = rest ? read_beside(*rest) : std::nullopt;
    if (said && agrees(entry, *said)) return found.push_back(&entry);
  }
}

}  // namespace

std::string folded_name(std::string_view name) {
  std::string out;
  for (char letter : name)
    if (letter != '-' && letter != '_' && letter != ' ') out += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return out;
}

const CatalogueEntry* find_named(const Catalogue& catalogue, std::string_view key) {
  for (const auto& entry : catalogue)
    if (folded_name(entry.name) == key || std::ranges::any_of(entry.aliases, [&](const auto& alias) { return folded_name(alias) == key; }))
      return &entry;
  return nullptr;
}

DeviceWord read_device_word(const Catalogue& catalogue, std::string_view word) {
  DeviceWord read;
  constexpr std::size_t longest = 128;  // that a card is called; a hostile megabyte must not cost a comparison with every name
  if (word.size() > longest) return read;
  const auto small = lower(word);
  read.slice = is_slice(small);
  if (read.slice) return read;
  for (const auto part : beginnings(small)) {
    // A name that a catalogue gives with its vendor is right in any case.
    const auto may_be = [&](const auto& entry) { return part.size() == small.size() || is_of_its_vendor(entry, small); };
    for (const auto& entry : catalogue)
      if (names_exactly(entry, part) && may_be(entry)) return {{&entry}, false};
    for (const auto& entry : catalogue)
      if (entry.kind == DeviceKind::gpu && may_be(entry)) add_matches(read.may_be, entry, part);
    if (!read.may_be.empty()) break;
  }
  std::ranges::stable_sort(read.may_be, {}, [](const auto* entry) { return entry->memory.value; });
  return read;
}

std::vector<const CatalogueEntry*> narrowed(std::vector<const CatalogueEntry*> entries, std::string_view word) {
  const auto small = lower(word);
  const auto said = read_beside(beginnings(small).back());
  if (!said) return entries;
  auto left = entries;
  std::erase_if(left, [&](const auto* entry) { return !agrees(*entry, *said); });
  return left.empty() ? entries : left;
}

}  // namespace flotilla::cluster
