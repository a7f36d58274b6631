#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "flotilla/base/error.hpp"
#include "flotilla/base/overloaded.hpp"
#include "flotilla/files/json.hpp"
#include "node.hpp"

namespace flotilla::files::detail {
namespace {

constexpr std::size_t line_width = 120;

bool is_scalar(const Node& node) {
  return !std::holds_alternative<Node::Array>(node.value) && !std::holds_alternative<Node::Object>(node.value);
}
bool is_flat_array(const Node& node) {
  const auto* array = std::get_if<Node::Array>(&node.value);
  return array && std::ranges::all_of(*array, is_scalar);
}
bool is_flat_object(const Node& node) {
  const auto* object = std::get_if<Node::Object>(&node.value);
  return object && std::ranges::all_of(*object, [](const ObjectMember& m) { return is_scalar(m.node) || is_flat_array(m.node); });
}

void write_one_line(const Node& node, std::string& out);

/// `each` writes one element; `open` and `close` are brackets.
template <class Elements, class Each>
void write_list(const Elements& elements, char open, char close, std::string& out, Each each) {
  out += open;
  const char* separator = "";
  for (const auto& element : elements) {
    out += separator;
    each(element);
    separator = ", ";
  }
  out += close;
}

void write_one_line(const Node& node, std::string& out) {
  std::visit(Overloaded{
                 [&](std::nullptr_t) { out += "null"; },
                 [&](bool v) { out += v ? "true" : "false"; },
                 [&](std::int64_t v) { out += std::to_string(v); },
                 [&](double v) { out += number(v); },
                 [&](const std::string& v) { out += json_string(v); },
                 [&](const Node::Array& v) { write_list(v, '[', ']', out, [&](const Node& n) { write_one_line(n, out); }); },
                 [&](const Node::Object& v) {
                   write_list(v, '{', '}', out, [&](const ObjectMember& m) {
                     out += json_string(m.key) + ": ";
                     write_one_line(m.node, out);
                   });
                 },
             },
             node.value);
}

void write_pretty(const Node& node, std::size_t indent, std::size_t used, std::string& out);

template <class Elements, class Each>
void write_lines(const Elements& elements, char open, char close, std::size_t indent, std::string& out, Each each) {
  out += open;
  const char* separator = "\n";
  for (const auto& element : elements) {
    out += separator;
    out.append(indent + 2, ' ');
    each(element);
    separator = ",\n";
  }
  out += '\n';
  out.append(indent, ' ');
  out += close;
}

void write_members(const Node::Object& object, std::size_t indent, std::string& out) {
  write_lines(object, '{', '}', indent, out, [&](const ObjectMember& m) {
    const std::string key = json_string(m.key) + ": ";
    out += key;
    write_pretty(m.node, indent + 2, indent + 2 + key.size(), out);
  });
}

/// `used` columns of the line are taken. Scalars and arrays of scalars stay on it, and so does a simple object that fits.
void write_pretty(const Node& node, std::size_t indent, std::size_t used, std::string& out) {
  if (is_scalar(node) || is_flat_array(node)) return write_one_line(node, out);
  if (is_flat_object(node))
    if (const std::string line = one_line(node); used + line.size() <= line_width) return void(out += line);
  if (const auto* object = std::get_if<Node::Object>(&node.value)) return write_members(*object, indent, out);
  write_lines(std::get<Node::Array>(node.value), '[', ']', indent, out,
              [&](const Node& n) { write_pretty(n, indent + 2, indent + 2, out); });
}

}  // namespace

std::string number(double value) {
  FLOTILLA_REQUIRE(std::isfinite(value), ErrorKind::internal, "a number that is not finite (", value, ") cannot be written as JSON");
  std::array<char, 64> digits{};
  const auto [end, failed] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  FLOTILLA_ASSERT(failed == std::errc{}, value);
  std::string text{digits.data(), end};
  // Without a point it would read back as an integer, and -0 would lose its sign.
  return text.find_first_of(".e") == text.npos ? text + ".0" : text;
}

std::string one_line(const Node& node) {
  std::string out;
  write_one_line(node, out);
  return out;
}

std::string pretty(const Node& node) {
  std::string out;
  const auto* object = std::get_if<Node::Object>(&node.value);
  if (object && !object->empty())
    write_members(*object, 0, out);
  else
    write_pretty(node, 0, 0, out);
  return out + "\n";
}

}  // namespace flotilla::files::detail
