#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/nearest.hpp"
#include "flotilla/options/table.hpp"
#include "option.hpp"
#include "toml_depth.hpp"

namespace flotilla::options {
namespace {

using detail::Kind;
using detail::Option;
using detail::Words;

constexpr std::size_t largest_file = 1 << 20;

struct Leaf {
  std::string name;
  toml::source_position key;
  const toml::node* value = nullptr;
};

std::string at(const std::string& source, const toml::source_position& where) { return text(source, ":", where.line, ":", where.column); }

std::string describe_node(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "a list";
    case toml::node_type::string: return in_quotes(node.as_string()->get());
    case toml::node_type::integer: return text(node.as_integer()->get());
    case toml::node_type::floating_point: return text(node.as_floating_point()->get());
    case toml::node_type::boolean: return node.as_boolean()->get() ? "true" : "false";
    default: return "a date or time";
  }
}

/// The digits that give the same double again.
std::string exact(double value) {
  std::array<char, 64> out{};
  return {out.data(), std::to_chars(out.data(), out.data() + out.size(), value).ptr};
}

bool fits(const toml::node& node, const Option& option) {
  switch (option.kind) {
    case Kind::boolean: return node.is_boolean();
    case Kind::integer: return node.is_integer();
    case Kind::real: return node.is_number();
    // A bare number goes on: the quantity's own message says which line to write.
    case Kind::size:
    case Kind::duration:
    case Kind::rate:
    case Kind::money:
    case Kind::share: return node.is_string() || node.is_number();
    case Kind::choice: return node.is_string() || (node.is_boolean() && detail::may_be_true(option));
    case Kind::text: return node.is_string();
  }
  return false;
}

std::string word_of(const toml::node& node, const Option& option, const detail::ValueSource& place) {
  if (!fits(node, option))
    detail::refuse(option, {text("expected ", detail::kind_in_words(option), ", got ", describe_node(node)), {}}, place);
  if (const auto* value = node.as_string()) return value->get();
  if (const auto* value = node.as_integer()) return std::to_string(value->get());
  if (const auto* value = node.as_floating_point()) return exact(value->get());
  return node.as_boolean()->get() ? "true" : "false";
}

void assign_leaf(Option& option, const Leaf& leaf, const std::string& source) {
  const detail::ValueSource place{Origin::job_file, at(source, leaf.value->source().begin)};
  if (!option.list) return detail::assign(option, {word_of(*leaf.value, option, place)}, place);
  const auto* items = leaf.value->as_array();
  if (items == nullptr)
    detail::refuse(option, {text("expected ", detail::kind_in_words(option), ", got ", describe_node(*leaf.value)), {}}, place);
  Words words;
  for (const auto& item : *items) {
    const detail::ValueSource item_place{Origin::job_file, at(source, item.source().begin)};
    words.push_back(word_of(item, option, item_place));
    // One by one first, so that the message points at the item.
    try {
      option.prepare(option, {words.back()});
    } catch (const detail::Fault& fault) {
      detail::refuse(option, fault, item_place);
    }
  }
  detail::assign(option, words, place);
}

bool is_section(const std::string& name, const std::vector<Section>& sections) {
  return std::any_of(sections.begin(), sections.end(), [&](const Section& s) { return s.name == name; });
}

/// "[training] steps" for "training.steps".
std::string in_a_file(const std::string& name) {
  const auto dot = name.rfind('.');
  return dot == std::string::npos ? "[" + name + "]" : "[" + name.substr(0, dot) + "] " + name.substr(dot + 1);
}

[[noreturn]] void refuse_key(const std::string& name, const std::string& where, const std::vector<std::string>& known) {
  const std::string moved = detail::called_elsewhere(name, known);
  const std::string meant = !moved.empty() ? moved : nearest(name, known);
  throw Error{ErrorKind::bad_input, text(where, ": unknown key ", in_quotes(name),
                                         meant.empty() ? "; --help lists them all" : "; did you mean " + in_a_file(meant) + "?")};
}

[[noreturn]] void refuse_section(const std::string& name, const std::string& where, const std::vector<Section>& sections) {
  std::vector<std::string> names;
  for (const auto& section : sections) names.push_back("[" + section.name + "]");
  throw Error{ErrorKind::bad_input, text(where, ": unknown section ", in_quotes("[" + name + "]"), suggestion("[" + name + "]", names),
                                         " (expected ", detail::join(names, " "), ")")};
}

void sort_by_place(std::vector<Leaf>& leaves) {
  std::ranges::sort(leaves, {}, [](const Leaf& leaf) { return std::pair{leaf.key.line, leaf.key.column}; });
}

/// Every key of the two levels that a job file has, in the order of the file, and its lists of tables that are in no section.
std::vector<Leaf> leaves_of(const toml::table& file, const std::string& source, const std::vector<Section>& sections,
                            const std::vector<std::string>& known, const std::vector<std::string>& lists) {
  std::vector<Leaf> leaves;
  for (const auto& [key, node] : file) {
    const std::string name{key.str()}, where = at(source, key.source().begin);
    if (std::ranges::count(lists, name) > 0) {
      leaves.push_back({name, key.source().begin, &node});
      continue;
    }
    const auto* inner = node.as_table();
    if (inner == nullptr && is_section(name, sections))
      throw Error{ErrorKind::bad_input, text(where, ": expected a section, got ", describe_node(node), "; write [", name, "]")};
    if (inner == nullptr) refuse_key(name, where, known);
    if (!is_section(name, sections)) refuse_section(name, where, sections);
    for (const auto& [inner_key, value] : *inner)
      leaves.push_back({name + "." + std::string{inner_key.str()}, inner_key.source().begin, &value});
  }
  sort_by_place(leaves);
  return leaves;
}

toml::table parse(std::string_view toml, const std::string& source) {
  detail::require_shallow(toml, source);
  try {
    return toml::parse(toml, source);
  } catch (const toml::parse_error& error) {
    throw Error{ErrorKind::bad_input, text(at(source, error.source().begin), ": not TOML: ", error.description())};
  }
}

/// The tables of [[name]].
std::vector<const toml::table*> tables_of(const Leaf& leaf, const std::string& source) {
  std::vector<const toml::table*> tables;
  const auto* items = leaf.value->as_array();
  if (items != nullptr)
    for (const auto& item : *items) tables.push_back(item.as_table());
  FLOTILLA_REQUIRE(items != nullptr && !items->empty() && std::ranges::count(tables, nullptr) == 0, ErrorKind::bad_input,
                   at(source, leaf.value->source().begin), ": expected tables, got ", describe_node(*leaf.value), "; write [[", leaf.name,
                   "]]");
  return tables;
}

std::vector<Leaf> leaves_of_entry(const toml::table& entry, const std::string& name) {
  std::vector<Leaf> leaves;
  for (const auto& [key, value] : entry) leaves.push_back({name + "." + std::string{key.str()}, key.source().begin, &value});
  sort_by_place(leaves);
  return leaves;
}

}  // namespace

void Table::read_toml(std::string_view toml, const std::string& source) {
  auto sections = sections_;
  sections.insert(sections.end(), foreign_sections_.begin(), foreign_sections_.end());
  const auto names_of = [](const Table& table) {
    std::vector<std::string> names;
    for (const auto& option : table.options_) names.push_back(option.name);
    for (const auto& list : table.entries_) names.push_back(list.name);
    return names;
  };
  const auto read = [&](Table& table, const Leaf& leaf) {
    const auto found = std::ranges::find(table.options_, leaf.name, &Option::name);
    if (found == table.options_.end()) refuse_key(leaf.name, at(source, leaf.key), names_of(table));
    assign_leaf(*found, leaf, source);
  };
  const auto file = parse(toml, source);
  std::vector<std::string> lists = foreign_;
  for (const auto& list : entries_) lists.push_back(list.name);
  for (const auto& leaf : leaves_of(file, source, sections, names_of(*this), lists)) {
    if (const auto list = std::ranges::find(entries_, leaf.name, &Entries::name); list != entries_.end()) {
      list->clear();
      list->places.clear();
      for (const auto* entry : tables_of(leaf, source)) {
        list->places.push_back(at(source, entry->source().begin));
        auto table = list->append();
        for (const auto& inner : leaves_of_entry(*entry, list->name)) read(table, inner);
      }
    } else if (find(leaf.name) == nullptr && std::ranges::count(foreign_, leaf.name) > 0) {
      passed_.push_back(leaf.name);
    } else {
      read(*this, leaf);
    }
  }
}

void Table::read_file(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  FLOTILLA_REQUIRE(!std::filesystem::is_directory(status), ErrorKind::bad_input, path, ": is a folder; expected a job file (TOML)");
  FLOTILLA_REQUIRE(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status), ErrorKind::bad_input, path,
                   ": is no regular file; expected a job file (TOML)");
  std::ifstream in{path, std::ios::binary};
  FLOTILLA_REQUIRE(in, ErrorKind::no_input, path, ": cannot be opened (", std::strerror(errno), "); expected a job file (TOML)");
  std::string content(largest_file + 1, '\0');
  in.read(content.data(), static_cast<std::streamsize>(content.size()));
  FLOTILLA_REQUIRE(!in.bad(), ErrorKind::bad_input, path, ": cannot be read");
  content.resize(static_cast<std::size_t>(in.gcount()));
  FLOTILLA_REQUIRE(content.size() <= largest_file, ErrorKind::bad_input, path, ": larger than 1 MiB; expected a job file (TOML)");
  read_toml(content, path);
}

}  // namespace flotilla::options
