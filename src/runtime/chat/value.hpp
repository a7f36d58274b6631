#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "flotilla/base/error.hpp"
#include "flotilla/files/json.hpp"

namespace flotilla::chat {

class Value;
struct MacroStatement;

using List = std::vector<Value>;
using Members = std::vector<std::pair<std::string, Value>>;

/// A name that nothing is bound to; an error says which.
struct Undefined {
  std::string name;
};
struct None {};
/// A generator gives its elements once, has no length and no text; a view is what items() and the like of a dictionary are.
enum class ListKind : std::uint8_t { list, tuple, generator, view };
struct ListBox {
  List items;
  ListKind kind = ListKind::list;
};
struct DictBox {
  Members members;           ///< in the order they were added
  bool names_space = false;  ///< of namespace(): members may be set
};
/// A method of a value, a macro, or a function of templates.
struct Function {
  std::string name;
  std::shared_ptr<Value> self;
  const MacroStatement* macro = nullptr;
};

/// What an expression is, with Python's meaning. Copies of lists and dictionaries share them; only namespaces are ever changed.
class Value {
 public:
  using Storage =
      std::variant<Undefined, None, bool, std::int64_t, double, std::string, std::shared_ptr<ListBox>, std::shared_ptr<DictBox>, Function>;

  Value() : storage_{Undefined{}} {}
  template <class T>
  requires std::constructible_from<Storage, T> Value(T value) : storage_{std::move(value)} {}

  static Value list(List items, ListKind kind = ListKind::list) { return std::make_shared<ListBox>(ListBox{std::move(items), kind}); }
  static Value dict(Members members) { return std::make_shared<DictBox>(DictBox{std::move(members)}); }
  static Value of(const files::Json&);

  template <class T>
  const T* as() const {
    return std::get_if<T>(&storage_);
  }
  /// Of a list or a tuple.
  const List* items() const {
    const auto* box = as<std::shared_ptr<ListBox>>();
    return box == nullptr || (*box)->kind > ListKind::tuple ? nullptr : &(*box)->items;
  }
  ListBox* any_list() const {
    const auto* box = as<std::shared_ptr<ListBox>>();
    return box == nullptr ? nullptr : box->get();
  }
  const Members* members() const {
    const auto* box = as<std::shared_ptr<DictBox>>();
    return box == nullptr ? nullptr : &(*box)->members;
  }
  DictBox* box() const {
    const auto* box = as<std::shared_ptr<DictBox>>();
    return box == nullptr ? nullptr : box->get();
  }
  const std::string* text() const { return as<std::string>(); }
  bool is_undefined() const { return as<Undefined>() != nullptr; }
  bool is_none() const { return as<None>() != nullptr; }
  /// bool counts as a number, as in Python.
  std::optional<std::int64_t> whole() const;
  std::optional<double> number() const;

  bool truth() const;
  /// "str", "int", "list", ...
  std::string type() const;

 private:
  Storage storage_;
};

/// A member of a dictionary; nullptr: none.
const Value* find(const Members&, std::string_view key);
/// Python's ==.
bool equal(const Value&, const Value&);
/// Negative, 0, positive. Throws std::invalid_argument for what Python does not order.
int compare(const Value&, const Value&);
/// What {{ value }} writes.
std::string printed(const Value&);
/// Python's repr().
std::string represented(const Value&);
/// json.dumps(value, ensure_ascii=False, indent=indent). Throws std::invalid_argument for what is no JSON.
std::string as_json(const Value&, std::optional<std::int64_t> indent);

/// The characters of a text, each as its UTF-8.
std::vector<std::string_view> characters(std::string_view text);
/// Of Python's str.strip(): characters of `chars`, or white space.
std::string stripped(std::string_view text, std::optional<std::string_view> chars, bool left, bool right);
/// Throws std::invalid_argument where a character is not ASCII: other letters need tables.
std::string with_case(const std::string& text, bool upper);

}  // namespace flotilla::chat
