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

#include "budget.hpp"
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
  int depth = 1;  ///< of lists and dictionaries in one another
};
struct DictBox {
  Members members;           ///< in the order they were added
  bool names_space = false;  ///< of namespace(): members may be set
  int depth = 1;
};
/// A method of a value, a macro, or a function of templates.
struct Function {
  std::string name;
  std::shared_ptr<Value> self;
  const MacroStatement* macro = nullptr;
};

/// What an expression is, with Python's meaning. Copies of texts, lists and dictionaries share them; only namespaces are ever changed. No
/// value holds a namespace: so none holds itself, and none becomes deeper than it was made.
class Value {
 public:
  using Storage = std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const std::string>, std::shared_ptr<ListBox>,
                               std::shared_ptr<DictBox>, Function>;

  Value() : storage_{Undefined{}} {}
  template <class T>
  requires std::constructible_from<Storage, T> Value(T value) : storage_{std::move(value)} {}

  Value(std::string);
  Value(const char* value) : Value{std::string{value}} {}

  /// These count in the budget, and throw std::invalid_argument for what nests too deep, or holds a namespace.
  static Value list(List items, ListKind kind = ListKind::list);
  static Value dict(Members members);
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
  const std::string* text() const {
    const auto* box = as<std::shared_ptr<const std::string>>();
    return box == nullptr ? nullptr : box->get();
  }
  bool is_undefined() const { return as<Undefined>() != nullptr; }
  bool is_none() const { return as<None>() != nullptr; }
  /// bool counts as a number, as in Python.
  std::optional<std::int64_t> whole() const;
  std::optional<double> number() const;

  bool truth() const;
  /// Of lists and dictionaries in one another; 0: none.
  int depth() const;
  /// "str", "int", "list", ...
  std::string type() const;

 private:
  Storage storage_;
};

/// Where `what` begins in `text`, from byte `from` on, in linear time; npos: nowhere.
std::size_t place_of(std::string_view what, std::string_view text, std::size_t from = 0);
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
