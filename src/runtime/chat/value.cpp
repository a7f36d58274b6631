#include "value.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "flotilla/base/overloaded.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/unicode/utf8.hpp"

namespace flotilla::chat {
namespace {

/// A JSON number without point and exponent is an int in Python.
Value number_of(const files::Json& json) {
  const auto digits = json.one_line();
  if (digits.find_first_of(".eE") == digits.npos) return json.as_int64();
  return json.as_double();
}

/// How deep what holds `value` is, so far `depth`.
void deepen(int& depth, const Value& value) {
  if (const auto* box = value.box(); box != nullptr && box->names_space)
    throw std::invalid_argument{"a namespace() in a list, a dict or a namespace is not supported"};
  depth = std::max(depth, value.depth() + 1);
  if (depth > deepest_value) throw std::invalid_argument{text("lists and dicts nested deeper than ", deepest_value)};
}

bool is_true(const files::Json& json) { return json.as_bool(); }

/// Python's white space.
bool is_space(std::string_view character) {
  static constexpr std::array<std::string_view, 21> wide{"\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81",
                                                         "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86",
                                                         "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8",
                                                         "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
  if (character.size() > 1) return std::ranges::find(wide, character) != wide.end();
  const auto c = static_cast<unsigned char>(character.front());
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
}

}  // namespace

Value::Value(std::string value) {
  Budget::bytes(value.size() + 64);  // what holds it, too
  storage_ = std::make_shared<const std::string>(std::move(value));
}

Value Value::list(List items, ListKind kind) {
  Budget::elements(items.size() + 1);
  int depth = 1;
  for (const auto& item : items) deepen(depth, item);
  return std::make_shared<ListBox>(ListBox{std::move(items), kind, depth});
}

Value Value::dict(Members members) {
  Budget::elements(members.size() + 1);
  int depth = 1;
  for (const auto& [key, value] : members) deepen(depth, value);
  return std::make_shared<DictBox>(DictBox{std::move(members), false, depth});
}

int Value::depth() const {
  if (const auto* list = any_list()) return list->depth;
  if (const auto* dict = box()) return dict->depth;
  const auto* function = as<Function>();
  return function == nullptr || function->self == nullptr ? 0 : function->self->depth();
}

Value Value::of(const files::Json& json) {
  if (json.is_null()) return None{};
  if (json.is_string()) return json.as_string();
  if (json.is_number()) return number_of(json);
  if (json.is_array()) {
    List items;
    for (const auto& item : json.items()) items.push_back(of(item));
    return list(std::move(items));
  }
  if (!json.is_object()) return is_true(json);
  Members members;
  for (const auto& key : json.keys()) members.emplace_back(key, of(json.at(key)));
  return dict(std::move(members));
}

std::optional<std::int64_t> Value::whole() const {
  if (const auto* flag = as<bool>()) return *flag ? 1 : 0;
  if (const auto* number = as<std::int64_t>()) return *number;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (const auto* number = as<double>()) return *number;
  if (const auto number = whole()) return static_cast<double>(*number);
  return std::nullopt;
}

bool Value::truth() const {
  return std::visit(
      Overloaded{[](const Undefined&) { return false; }, [](const None&) { return false; }, [](const Function&) { return true; },
                 [](const std::shared_ptr<const std::string>& text) { return !text->empty(); },
                 [](const std::shared_ptr<ListBox>& list) { return list->kind == ListKind::generator || !list->items.empty(); },
                 [](const std::shared_ptr<DictBox>& dict) { return dict->names_space || !dict->members.empty(); },
                 [](const auto& number) { return number != 0; }},
      storage_);
}

std::string Value::type() const {
  static constexpr std::array lists{"list", "tuple", "a generator", "a view of a dict"};
  if (any_list() != nullptr) return lists[static_cast<std::size_t>(any_list()->kind)];
  static constexpr std::array names{"an undefined value", "None", "bool", "int", "float", "str", "list", "dict", "function"};
  return names[storage_.index()];
}

std::size_t place_of(std::string_view what, std::string_view text, std::size_t from) {
  if (what.empty() || from >= text.size()) return what.empty() && from <= text.size() ? from : text.npos;
  const auto* const begin = text.data() + from;
  const auto* const found = static_cast<const char*>(memmem(begin, text.size() - from, what.data(), what.size()));
  Budget::bytes(found == nullptr ? text.size() - from : static_cast<std::size_t>(found - begin) + what.size());
  return found == nullptr ? text.npos : static_cast<std::size_t>(found - text.data());
}

const Value* find(const Members& members, std::string_view key) {
  Budget::elements(members.size() / 16);  // those of messages are as good as free
  const auto found = std::ranges::find(members, key, [](const auto& member) { return std::string_view{member.first}; });
  return found == members.end() ? nullptr : &found->second;
}

bool equal(const Value& a, const Value& b) {
  Budget::elements(1);
  if (a.text() != nullptr && b.text() != nullptr) Budget::bytes(std::min(a.text()->size(), b.text()->size()));
  if (const auto x = a.whole(), y = b.whole(); x && y) return *x == *y;
  if (const auto x = a.number(), y = b.number(); x && y) return *x == *y;
  if (a.text() != nullptr && b.text() != nullptr) return *a.text() == *b.text();
  if (a.items() != nullptr && b.items() != nullptr) return a.type() == b.type() && std::ranges::equal(*a.items(), *b.items(), equal);
  if (a.members() == nullptr || b.members() == nullptr) return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
  if (a.members()->size() != b.members()->size()) return false;
  return std::ranges::all_of(*a.members(), [&](const auto& member) {
    const auto* other = find(*b.members(), member.first);
    return other != nullptr && equal(member.second, *other);
  });
}

int compare(const Value& a, const Value& b) {
  const auto sign = [](const auto& x, const auto& y) { return x < y ? -1 : y < x ? 1 : 0; };
  if (const auto x = a.whole(), y = b.whole(); x && y) return sign(*x, *y);
  if (const auto x = a.number(), y = b.number(); x && y) return sign(*x, *y);
  if (a.text() != nullptr && b.text() != nullptr) Budget::bytes(std::min(a.text()->size(), b.text()->size()));
  if (a.text() != nullptr && b.text() != nullptr) return sign(*a.text(), *b.text());  // UTF-8 orders as code points do
  const bool lists = a.items() != nullptr && b.items() != nullptr;
  throw std::invalid_argument{text(a.type(), " and ", b.type(), lists ? ": their order is not supported" : " have no order")};
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> all;
  for (std::size_t at = 0; at < text.size(); at += all.back().size()) all.push_back(text.substr(at, unicode::character_bytes(text[at])));
  return all;
}

std::string stripped(std::string_view text, std::optional<std::string_view> chars, bool left, bool right) {
  const auto all = characters(text);
  Budget::bytes(text.size());
  const auto set = chars ? characters(*chars) : std::vector<std::string_view>{};
  const auto goes = [&](std::string_view character) {
    Budget::bytes(set.size());
    return chars ? std::ranges::find(set, character) != set.end() : is_space(character);
  };
  std::size_t first = 0, last = all.size();
  while (left && first < last && goes(all[first])) ++first;
  while (right && first < last && goes(all[last - 1])) --last;
  std::string kept;
  for (; first < last; ++first) kept += all[first];
  return kept;
}

std::string with_case(const std::string& text, bool upper) {
  Budget::bytes(text.size());
  std::string changed = text;
  for (char& c : changed) {
    if (static_cast<unsigned char>(c) > 127) throw std::invalid_argument{"letters beyond ASCII do not change their case here"};
    if (upper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
    if (!upper && c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return changed;
}

}  // namespace flotilla::chat
