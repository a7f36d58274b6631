#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

#include "flotilla/base/text.hpp"

/// Pages for a browser: one HTML file that needs no other, no network and no script. docs/design/pages.md says how they are made.
namespace flotilla::page {

/// A name of an element, an attribute or a class. Only literals of ours can be one: nobody else's text ever names markup.
class Name {
 public:
  consteval Name(const char* name) : name_{name} {}
  std::string_view text() const { return name_; }

 private:
  std::string_view name_;
};

/// Well-formed markup. It is made of elements() and of words() alone, so text of others reaches a page escaped and in no other way.
class Markup {
 public:
  Markup() = default;
  Markup& operator+=(const Markup& more) {
    text_ += more.text_;
    return *this;
  }
  friend Markup operator+(Markup left, const Markup& right) { return left += right; }
  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  explicit Markup(std::string text) : text_{std::move(text)} {}
  std::string text_;

  friend Markup words(std::string_view);
  friend class Element;
};

/// Anybody's text: control characters and bytes that are no UTF-8 become visible (base/foreign_text.hpp), "<" and its like are escaped.
Markup words(std::string_view);

/// name="value"; a number has one decimal at most, which is what coordinates need.
struct Attribute {
  Name name;
  std::string value;

  Attribute(Name n, std::string_view v) : name{n}, value{v} {}
  Attribute(Name n, double v);
};

/// <name a="..." b="...">content</name>, or <name .../> without content.
Markup element(Name, std::initializer_list<Attribute> = {}, const Markup& content = {});
/// The same around text.
Markup element(Name, std::initializer_list<Attribute>, std::string_view words);

}  // namespace flotilla::page
