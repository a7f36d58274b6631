#include "fuzz/hostile.hpp"

#include <nlohmann/json.hpp>
#include <span>

#include "flotilla/base/hash.hpp"
#include "flotilla/base/text.hpp"
#include "fuzz/mutation.hpp"

namespace flotilla::fuzz {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

std::string repeated(const std::string& what, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += what;
  return out;
}

std::string expression(Dice& dice, int depth) {
  static const Words leaves{"ns.x",    "ns.y",     "messages", "messages[0].content", "1",     "'ab'",  "[]", "{}",  "none", "t",
                            "2 ** 62", "'a' * 99", "range(9)", "range(99999)",        "ns",    "tools", "-1", "1.5", "true", "loop.index",
                            "nothing", "'\\n'",    "m(3)",     "dict(a=1)",           "[[1]]", "m",     "''", "0"};
  if (depth == 0) return dice.one_of(leaves);
  const auto a = [&] { return expression(dice, depth - 1); };
  static const Words filters{"tojson",
                             "tojson(indent=3)",
                             "list",
                             "join(',')",
                             "length",
                             "trim('ab')",
                             "string",
                             "map('string')",
                             "reverse",
                             "upper",
                             "replace('a', 'aa')",
                             "indent(9)",
                             "map('map', 'list')",
                             "select",
                             "selectattr('a')",
                             "int",
                             "items",
                             "first",
                             "last",
                             "title",
                             "default(1)"};
  static const Words operators{"+", "*", "~", "==", "in", "<", "and", "or", "-", "//", "%", "**", "!=", "not in"};
  switch (dice.pick(0, 8)) {
    case 0: return "[" + a() + ", " + a() + "]";
    case 1: return "{'a': " + a() + ", 'b': " + a() + "}";
    case 2: return "(" + a() + ") | " + dice.one_of(filters);
    case 3: return "(" + a() + " if " + a() + " else " + a() + ")";
    case 4: return "(" + a() + ")[" + a() + "]";
    case 5: return "(" + a() + ")[::-1]";
    case 6: return "(" + a() + ", " + a() + ")";
    case 7: return "(" + a() + ").split(" + (dice.chance(0.5) ? "" : a()) + ")";
    default: return "(" + a() + " " + dice.one_of(operators) + " " + a() + ")";
  }
}

std::string statement(Dice& dice, int depth) {
  const auto value = expression(dice, dice.pick(0, 2));
  const auto inner = [&] { return depth == 0 ? std::string{"x"} : statement(dice, depth - 1); };
  static const Words rounds{"range(3)", "range(60)", "range(2000)", "range(99999)", "messages", "ns.x", "'abc' * 9999"};
  static const Words grows{"[ns.x]",      "[ns.x, ns.x]", "ns.x + ns.x", "ns.x * 2", "{'a': ns.x}", "ns.x + ['a' * 16000000]",
                           "ns.x ~ ns.x", "(ns.x,)"};
  switch (dice.pick(0, 7)) {
    case 0: return "{% for i in " + dice.one_of(rounds) + " %}" + inner() + inner() + "{% endfor %}";
    case 1: return "{% for i in " + dice.one_of(rounds) + " %}{% set ns.x = " + dice.one_of(grows) + " %}{% endfor %}";
    case 2: return "{% set ns.y = " + value + " %}";
    case 3: return "{% set t = " + value + " %}";
    case 4: return "{% if " + value + " %}" + inner() + "{% else %}" + inner() + "{% endif %}";
    case 5: return "{% macro m(n) %}" + inner() + (dice.chance(0.3) ? "{{ m(n) }}" : "") + "{% endmacro %}";
    case 6: return "{% set t %}" + inner() + "{% endset %}";
    default: return "{{ " + value + " }}";
  }
}

json pattern(Dice& dice) {
  static const Words atoms{"a", ".",       "\\s",   "\\p{L}",      "[^x]",  "\\w",   "(a|aa)", "(a+)", "\\S",
                           " ", "(?:ab)?", "[a-c]", "\\p{N}{1,3}", "(?=a)", "(?!b)", "^",      "$"};
  static const Words repeats{"", "*", "+", "?", "+?", "{2,9}", "*+", "{30}"};
  std::string regex;
  for (int n = dice.pick(1, 5); n > 0; --n) {
    regex += dice.one_of(atoms) + dice.one_of(repeats);
    if (dice.chance(0.2)) regex = "(" + regex + ")" + dice.one_of(repeats);
    if (dice.chance(0.2) && n > 1) regex += "|";
  }
  return dice.chance(0.8) ? json{{"Regex", regex}} : json{{"String", dice.one_of<std::string>({" ", "a", "ab", "\n"})}};
}

json normalizer(Dice& dice) {
  switch (dice.pick(0, 3)) {
    case 0: return {{"type", dice.one_of<std::string>({"NFC", "NFD", "NFKC", "NFKD"})}};
    case 1: return {{"type", "Prepend"}, {"prepend", repeated("x", dice.one_of<int>({1, 1000, 100000}))}};
    default: return {{"type", "Replace"}, {"pattern", pattern(dice)}, {"content", repeated("a", dice.one_of<int>({0, 1, 3, 1000}))}};
  }
}

json pre_tokenizer(Dice& dice) {
  static const Words behaviors{"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
  switch (dice.pick(0, 3)) {
    case 0:
      return {{"type", "Metaspace"}, {"replacement", "x"}, {"prepend_scheme", dice.one_of<std::string>({"always", "first", "never"})}};
    case 1: return {{"type", "Digits"}, {"individual_digits", dice.chance(0.5)}};
    default: return {{"type", "Split"}, {"pattern", pattern(dice)}, {"behavior", dice.one_of(behaviors)}, {"invert", dice.chance(0.3)}};
  }
}

json added_token(int id, Dice& dice) {
  static const Words contents{" ", "a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "ab", "<x>", "\n"};
  return {{"id", id},
          {"content", dice.one_of(contents) + repeated("a", dice.pick(0, 1) * dice.pick(0, 3000))},
          {"single_word", dice.chance(0.3)},
          {"lstrip", dice.chance(0.5)},
          {"rstrip", dice.chance(0.5)},
          {"normalized", dice.chance(0.5)},
          {"special", dice.chance(0.5)}};
}

}  // namespace

std::string hostile_template(Dice& dice) {
  std::string out =
      "{% set ns = namespace(x=" + dice.one_of<std::string>({"[]", "'a'", "[1]", "{}", "1", "()"}) + ", y=1) %}{% set t = 'a' %}";
  for (int n = dice.pick(1, 6); n > 0; --n) out += statement(dice, dice.pick(0, 3));
  return out;
}

std::string hostile_tokenizer(const std::string& intact, Dice& dice) {
  auto document = json::parse(intact);
  if (dice.chance(0.6)) {
    auto steps = json::array();
    for (int n = dice.pick(1, dice.chance(0.05) ? 100 : 4); n > 0; --n) steps.push_back(normalizer(dice));
    document["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  }
  if (dice.chance(0.8)) {
    auto steps = json::array();
    for (int n = dice.pick(1, dice.chance(0.05) ? 100 : 6); n > 0; --n) steps.push_back(pre_tokenizer(dice));
    if (dice.chance(0.5))
      steps.push_back(
          {{"type", "ByteLevel"}, {"add_prefix_space", dice.chance(0.5)}, {"trim_offsets", true}, {"use_regex", dice.chance(0.5)}});
    document["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
  }
  int id = 100'000;
  for (int n = dice.pick(0, 3); n > 0; --n) document["added_tokens"].push_back(added_token(id++, dice));
  return document.dump();
}

std::string hostile_text(Dice& dice) {
  static const Words parts{"a", " ", "ab ", "aaaa", "\n", "1", "x", "\xc3\xa9", "\xef\xb7\xba", "A", "b"};
  std::string out;
  for (int n = dice.pick(1, 3); n > 0; --n) out += repeated(dice.one_of(parts), dice.one_of<int>({1, 64, 1000, 20000, 200000}));
  return out;
}

std::string with_own_checksum(std::string manifest) {
  const std::string key = "\"checksum_crc32c\":", zeros = "00000000";
  const auto at = manifest.rfind(key);
  if (at == manifest.npos) return manifest;
  const auto begin = manifest.find('"', at + key.size());
  if (begin == manifest.npos || begin + 9 > manifest.size()) return manifest;
  manifest.replace(at, begin + 1 + zeros.size() - at, key + " \"" + zeros);
  const auto place = at + key.size() + 2;
  const auto crc = crc32c(std::as_bytes(std::span{manifest}));
  return manifest.replace(place, zeros.size(), hex(crc).substr(8));
}

std::string hostile_manifest(const std::string& intact, Dice& dice) {
  if (dice.chance(0.5)) return with_own_checksum(damaged_json(intact, dice));
  auto document = json::parse(intact);
  static const Words keys{"step", "optimizer_steps", "sequences", "training", "data_fingerprint",
                          "plan", "profile",         "tensors",   "frozen",   "seed"};
  const auto words = repeated(dice.one_of<std::string>({" ", "a", "[", "\n", "block.0."}), dice.pick(1, 60'000)) + awkward_value(dice);
  std::string printable;
  for (const char c : words) printable += static_cast<unsigned char>(c) < 0x80 ? c : '?';
  const auto number = dice.one_of<std::int64_t>({-1, 0, 1, 100'000'000'000, 100'000'000'001, std::numeric_limits<std::int64_t>::max()});
  for (int n = dice.pick(1, 3); n > 0; --n) {
    if (dice.chance(0.4)) {
      auto& all = document["provenance"];
      auto entry = all.begin();
      for (int skip = dice.pick(0, static_cast<int>(all.size()) - 1); skip > 0; --skip) ++entry;
      *entry = printable;
    } else if (dice.chance(0.5)) {
      document[dice.one_of(keys)] = printable;
    } else {
      document[dice.one_of(keys)] = number;
    }
  }
  return with_own_checksum(document.dump(2));
}

std::string sign_damaged_structure(const std::string& manifest, std::string& state, Dice& dice) {
  auto document = json::parse(manifest);
  auto& file = document["files"][0];
  auto ranges = file["tensor_ranges"].get<std::vector<std::size_t>>();
  ranges.push_back(state.size());
  std::string structure;
  std::vector<std::size_t> places;  // in the file, of its bytes
  for (std::size_t i = 0, at = 0; i < ranges.size(); at = ranges[i] + (i + 1 < ranges.size() ? ranges[i + 1] : 0), i += 2)
    for (; at < ranges[i]; ++at) structure += state[at], places.push_back(at);
  for (int n = dice.pick(1, 12); n > 0; --n) {
    const auto i = static_cast<std::size_t>(dice.pick(0, static_cast<int>(dice.chance(0.5) ? 2048 : structure.size()) - 1));
    state[places[i]] = structure[i] = static_cast<char>(dice.chance(0.3) ? dice.one_of<int>({0, 1, 127, 255}) : dice.pick(0, 255));
  }
  const auto signature = [](std::string_view bytes) { return hex(crc32c(std::as_bytes(std::span{bytes}))).substr(8); };
  file["header_crc32c"] = signature(std::string_view{structure}.substr(0, 512));
  file["structure_crc32c"] = signature(structure);
  return with_own_checksum(document.dump(2));
}

std::string hostile_counts(Dice& dice) {
  static const Words words{"0",
                           "1",
                           "2",
                           "-1",
                           "999999999999999",
                           "9999999999999999",
                           "18446744073709551616",
                           "08",
                           "0x10",
                           "x[$(touch executed)]",
                           "$(touch executed)",
                           "`touch executed`",
                           "1;touch executed",
                           "",
                           "\n",
                           "\t",
                           "a b",
                           "*",
                           "-n",
                           "%s"};
  std::string out;
  for (int n = dice.pick(0, 4); n > 0; --n) out += dice.one_of(words) + (dice.chance(0.7) ? " " : "\n");
  if (dice.chance(0.1)) out += repeated(dice.one_of(words), 200'000);
  return dice.chance(0.3) ? damaged_bytes(out, dice) : out;
}

std::string hostile_outcome(Dice& dice) {
  const json intact{{"incarnation", dice.one_of<int>({1, 2, -1, 2147483647})},
                    {"exit_code", dice.one_of<int>({0, 75, 77, 137, -1, 999999})},
                    {"reason", "rank 3 on n" + std::to_string(dice.pick(0, 3)) + " has been silent for 10 s" +
                                   (dice.chance(0.3) ? hostile_counts(dice) : "")},
                    {"temporary", dice.chance(0.5)}};
  const auto text = intact.dump(dice.chance(0.5) ? 2 : -1, ' ', false, json::error_handler_t::replace);
  if (dice.chance(0.4)) return text;
  return dice.chance(0.5) ? damaged_json(text, dice) : damaged_bytes(text, dice);
}

}  // namespace flotilla::fuzz
