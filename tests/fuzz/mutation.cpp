#include "fuzz/mutation.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "support/temporary_folder.hpp"

namespace flotilla::fuzz {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

int last_index(std::size_t size) { return static_cast<int>(size) - 1; }

std::size_t place_in(const std::string& bytes, Dice& dice) { return static_cast<std::size_t>(dice.pick(0, last_index(bytes.size()))); }

std::string little_endian(Dice& dice) {
  const auto value = dice.one_of<std::uint64_t>({0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff,
                                                 0x8000000000000000, 0xffffffffffffffff, 0xfffffffffffffff0});
  std::string bytes(static_cast<std::size_t>(dice.one_of<int>({1, 2, 4, 8})), '\0');
  std::memcpy(bytes.data(), &value, bytes.size());
  return bytes;
}

void damage_once(std::string& bytes, Dice& dice) {
  if (bytes.empty()) {
    bytes = awkward_value(dice);
    return;
  }
  const auto at = place_in(bytes, dice);
  const auto length = static_cast<std::size_t>(dice.pick(1, 16));
  switch (dice.pick(0, 6)) {
    case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << dice.pick(0, 7))); break;
    case 1: bytes[at] = static_cast<char>(dice.pick(0, 255)); break;
    case 2: bytes.erase(at, length); break;
    case 3: bytes.insert(at, bytes.substr(at, length)); break;
    case 4: bytes.resize(at); break;
    case 5: {
      const auto number = little_endian(dice);
      bytes.replace(at, number.size(), number);
      break;
    }
    default: bytes.insert(at, awkward_value(dice));
  }
}

/// A piece of the text between separators: where it starts and how long it is.
struct Piece {
  std::size_t at, size;
};

std::vector<Piece> pieces_of(const std::string& text, const char* separators) {
  std::vector<Piece> pieces;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find_first_of(separators, at), text.size());
    if (end > at) pieces.push_back({at, end - at});
    at = end + 1;
  }
  return pieces;
}

void damage_piece(std::string& text, const char* separators, Dice& dice) {
  const auto pieces = pieces_of(text, separators);
  if (pieces.empty()) return;
  const auto [at, size] = dice.one_of(pieces);
  const auto other = dice.one_of(pieces);
  switch (dice.pick(0, 4)) {
    case 0: text.erase(at, size); break;
    case 1: text.insert(at, text.substr(at, std::min(size + 1, text.size() - at))); break;
    case 2: text.replace(at, size, text.substr(other.at, other.size)); break;
    default: text.replace(at, size, awkward_value(dice));
  }
}

void collect(const json& node, const json::json_pointer& here, std::vector<json::json_pointer>& all) {
  all.push_back(here);
  if (node.is_object())
    for (const auto& [key, value] : node.items()) collect(value, here / key, all);
  if (node.is_array())
    for (std::size_t i = 0; i < std::min<std::size_t>(node.size(), 64); ++i) collect(node[i], here / i, all);
}

/// Stands in the document for text that is no JSON value of the library's, such as 1e999.
constexpr const char* raw_mark = "@raw@";

json awkward_json(Dice& dice, std::string& raw) {
  switch (dice.pick(0, 11)) {
    case 0: return nullptr;
    case 1: return dice.chance(0.5);
    case 2: return json::array();
    case 3: return json::object();
    case 4: return json::array({awkward_value(dice), -1, nullptr});
    case 5: return awkward_value(dice);
    case 6: return dice.one_of<double>({-1, -0.5, 1e-300, 1e300, 1e18, 0.1});
    case 7:
      return dice.one_of<std::int64_t>({-1, 0, 1, 255, 65536, std::numeric_limits<int>::max(), std::numeric_limits<int>::min(),
                                        std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()});
    case 8: return json(static_cast<std::size_t>(dice.pick(1000, 100000)), 1);
    case 9:
      raw = dice.one_of<std::string>({"1e999", "-1e999", "18446744073709551616", "NaN", "Infinity", "0x10", "01", "'a'", "\"\\ud800\""});
      break;
    case 10: raw = std::string(static_cast<std::size_t>(dice.pick(100, 200000)), '['); break;
    default: raw = "\"\\u0000\\u001b[2J\\n\"";
  }
  return raw_mark;
}

void damage_node(json& document, Dice& dice, std::string& raw) {
  std::vector<json::json_pointer> all;
  collect(document, json::json_pointer{}, all);
  const auto place = dice.one_of(all);
  switch (dice.pick(0, 5)) {
    case 0:
      if (!place.empty() && document.at(place.parent_pointer()).is_object()) document[place.parent_pointer()].erase(place.back());
      break;
    case 1: document[place] = json(document.at(dice.one_of(all))); break;
    case 2:
      if (document.at(place).is_object()) document[place][awkward_value(dice)] = 1;
      break;
    case 3:
      if (document.at(place).is_array() && !document.at(place).empty()) document[place].push_back(json(document.at(place).front()));
      break;
    default: document[place] = awkward_json(dice, raw);
  }
}

/// Larger ones are made sparse giants already; nothing reads them.
constexpr std::uintmax_t largest_read = 64 << 20;

void make_sparse_giant(const fs::path& file, Dice& dice) {
  std::error_code ignored;  // a file system without room for it leaves the file as it is
  fs::resize_file(file, std::uintmax_t{1} << dice.pick(33, 42), ignored);
}

std::string damaged_text_of(const fs::path& file, Dice& dice) {
  const auto intact = tests::content(file);
  const auto kind = file.extension();
  if (kind == ".json") return damaged_json(intact, dice);
  if (kind == ".toml") return damaged_toml(intact, dice);
  if (kind == ".h5" || kind == ".bin" || kind == ".idx" || kind == ".npy") return damaged_bytes(intact, dice);
  return damaged_lines(intact, dice);
}

std::vector<fs::path> entries_below(const fs::path& folder) {
  std::vector<fs::path> all;
  for (const auto& entry : fs::recursive_directory_iterator{folder}) all.push_back(entry.path());
  std::ranges::sort(all);
  return all;
}

void replace_entry(const fs::path& entry, Dice& dice) {
  fs::remove_all(entry);
  switch (dice.pick(0, 5)) {
    case 0: return;
    case 1: fs::create_directory(entry); return;
    case 2: ::mkfifo(entry.c_str(), 0600); return;
    case 3: fs::create_symlink(entry, entry); return;
    case 4: fs::create_symlink("nowhere", entry); return;
    default: std::ofstream{entry}.flush();
  }
}

/// Another name in the same folder: numbers at the limits, signs, what other programs leave.
void rename_entry(const fs::path& entry, Dice& dice) {
  static const std::vector<std::string> names{"step-0",
                                              "step--1",
                                              "step-9223372036854775807",
                                              "step-99999999999999999999",
                                              "step-1e3",
                                              "2147483647.json",
                                              "2147483648.json",
                                              "-1.json",
                                              "0.json",
                                              "1.json",
                                              "x.tmp",
                                              "1.own",
                                              "step-4x",
                                              "metrics.jsonl",
                                              "manifest.json",
                                              "control.json"};
  std::error_code ignored;  // in the way of a folder, say
  fs::rename(entry, entry.parent_path() / dice.one_of(names), ignored);
}

}  // namespace

std::string awkward_value(Dice& dice) {
  static const std::vector<std::string> values{"",
                                               " ",
                                               "0",
                                               "-0",
                                               "-1",
                                               "1",
                                               "2147483647",
                                               "2147483648",
                                               "-2147483649",
                                               "4294967296",
                                               "9223372036854775807",
                                               "9223372036854775808",
                                               "18446744073709551616",
                                               "1e308",
                                               "1e309",
                                               "-1e309",
                                               "1e-320",
                                               "nan",
                                               "inf",
                                               "-inf",
                                               "0x7f",
                                               "1_000",
                                               "1,5",
                                               "007",
                                               "true",
                                               "null",
                                               "none",
                                               "\n",
                                               "a\nflotilla: error: b",
                                               "\r",
                                               "\t",
                                               "\x1b[2J",
                                               "\x1b]0;t\x07",
                                               std::string("\0", 1),
                                               "\xff\xfe",
                                               "\xc3\x28",
                                               "\xe2\x80\xae",
                                               "\xed\xa0\x80",
                                               "%s%n",
                                               "$(true)",
                                               "`true`",
                                               "a[$(true)]",
                                               "../..",
                                               ".",
                                               "..",
                                               "a/b",
                                               "*",
                                               "~",
                                               "'",
                                               "\"",
                                               "\\",
                                               ";",
                                               "|",
                                               "=",
                                               "==",
                                               ":",
                                               "@",
                                               ",",
                                               ",,",
                                               "[",
                                               "]",
                                               "{",
                                               "}",
                                               "#",
                                               "--",
                                               "-",
                                               "A100-40=4/4",
                                               "A100-40@z=1000000000/1",
                                               "1GiB",
                                               "-1GiB",
                                               "99999999TiB",
                                               "1s",
                                               "-1s",
                                               "1e30h",
                                               "0.1%",
                                               "200%"};
  if (dice.chance(0.05))
    return std::string(static_cast<std::size_t>(dice.pick(256, 20000)), dice.one_of<char>({'a', '9', '/', '\xff', '('}));
  return dice.one_of(values);
}

std::string damaged_bytes(std::string bytes, Dice& dice) {
  for (int times = dice.pick(1, 4); times > 0; --times) damage_once(bytes, dice);
  return bytes;
}

std::string damaged_lines(std::string text, Dice& dice) {
  if (dice.chance(0.2)) return damaged_bytes(std::move(text), dice);
  for (int times = dice.pick(1, 4); times > 0; --times)
    damage_piece(text, dice.one_of<const char*>({"\n", " \n\t", " =|,:/\n", "\""}), dice);
  return text;
}

std::string damaged_json(const std::string& text, Dice& dice) {
  auto document = json::parse(text, nullptr, false);
  if (document.is_discarded() || dice.chance(0.15)) return damaged_lines(text, dice);
  std::string raw;
  for (int times = dice.pick(1, 3); times > 0; --times) damage_node(document, dice, raw);
  auto damaged = document.dump(-1, ' ', false, json::error_handler_t::replace);
  const std::string mark = std::string{"\""} + raw_mark + "\"";
  if (const auto at = damaged.find(mark); at != std::string::npos) damaged.replace(at, mark.size(), raw);
  return damaged;
}

std::string damaged_toml(const std::string& text, Dice& dice) {
  if (dice.chance(0.2)) return damaged_lines(text, dice);
  auto damaged = text;
  for (int times = dice.pick(1, 3); times > 0; --times) {
    const auto lines = pieces_of(damaged, "\n");
    if (lines.empty()) break;
    const auto [at, size] = dice.one_of(lines);
    const auto line = damaged.substr(at, size);
    const auto equals = line.find('=');
    const auto value =
        dice.one_of<std::string>({awkward_value(dice), '"' + awkward_value(dice) + '"', "[]", "[[]]", "{}", "[1, \"a\"]", "1979-05-27",
                                  "\"\"\"\n\n\"\"\"", std::string(static_cast<std::size_t>(dice.pick(10, 5000)), '[')});
    if (equals != std::string::npos && dice.chance(0.7))
      damaged.replace(at + equals + 1, size - equals - 1, value);
    else
      damage_piece(damaged, "\n", dice);
  }
  return damaged;
}

void damage_file(const fs::path& file, Dice& dice) {
  if (fs::file_size(file) > largest_read) return;
  if (dice.chance(0.02)) return make_sparse_giant(file, dice);
  const auto damaged = damaged_text_of(file, dice);
  std::ofstream{file, std::ios::binary} << damaged;
}

void damage_entry_below(const fs::path& folder, Dice& dice) {
  for (int times = dice.pick(1, 3); times > 0; --times) {
    const auto all = entries_below(folder);
    if (all.empty()) return;
    const auto entry = dice.one_of(all);
    if (dice.chance(0.1))
      rename_entry(entry, dice);
    else if (dice.chance(0.1))
      replace_entry(entry, dice);
    else if (fs::is_regular_file(fs::symlink_status(entry)))
      damage_file(entry, dice);
  }
}

}  // namespace flotilla::fuzz
