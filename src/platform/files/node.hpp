#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace flotilla::files::detail {

struct ObjectMember;

/// A JSON value, read or about to be written. Members of objects keep their order.
struct Node {
  using Array = std::vector<Node>;
  using Object = std::vector<ObjectMember>;
  std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, Array, Object> value;

  Node();
  template <std::same_as<bool> T>
  Node(T v);
  template <std::integral T>
  requires(!std::same_as<T, bool>) Node(T v);
  Node(double v);
  Node(const char* v);
  Node(std::string v);
  Node(Array v);
  Node(Object v);
};

struct ObjectMember {
  std::string key;
  Node node;
};

// Out of the class: a vector of ObjectMember may only be touched once that is complete.
inline Node::Node() : value{nullptr} {}
template <std::same_as<bool> T>
Node::Node(T v) : value{v} {}
template <std::integral T>
requires(!std::same_as<T, bool>) Node::Node(T v) : value{static_cast<std::int64_t>(v)} {}
inline Node::Node(double v) : value{v} {}
inline Node::Node(const char* v) : value{std::string{v}} {}
inline Node::Node(std::string v) : value{std::move(v)} {}
inline Node::Node(Array v) : value{std::move(v)} {}
inline Node::Node(Object v) : value{std::move(v)} {}

/// Throws Error{bad_input}; see Json::parse.
Node parse(std::string_view text, std::string_view source);

/// On one line; indented, with what is short on one line.
std::string one_line(const Node&);
std::string pretty(const Node&);

/// The shortest text that reads back as the same double; always with a point or an exponent. Finite numbers only.
std::string number(double);

/// One step of a JSON pointer, '~' and '/' escaped.
std::string pointer_step(std::string_view key);

}  // namespace flotilla::files::detail
