#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace flotilla::files {

namespace detail {
struct Node;
}

/// A read-only place in a parsed JSON document, which it keeps alive. Copies are cheap. Every accessor throws Error{bad_input}:
/// "<source>: <JSON pointer>: <what was expected>".
class Json {
 public:
  /// `source` names the text in messages (a file). Refuses what is not JSON (line and column), a key that occurs twice in an object,
  /// nesting deeper than 64 and more than two million values.
  static Json parse(std::string_view text, std::string_view source);
  /// The file's text, parsed; the path is the source.
  static Json read(const std::filesystem::path&);

  bool is_null() const;
  bool is_number() const;
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;

  /// This value itself.
  bool as_bool() const;
  int as_int(int least = std::numeric_limits<int>::min(), int most = std::numeric_limits<int>::max()) const;
  std::int64_t as_int64(std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                        std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
  double as_double(double least = std::numeric_limits<double>::lowest(), double most = std::numeric_limits<double>::max()) const;
  std::string as_string() const;

  /// Members of an object.
  bool has(std::string_view key) const;
  Json at(std::string_view key) const;
  std::vector<std::string> keys() const;
  bool get_bool(std::string_view key) const { return at(key).as_bool(); }
  int get_int(std::string_view key, int least = std::numeric_limits<int>::min(), int most = std::numeric_limits<int>::max()) const {
    return at(key).as_int(least, most);
  }
  std::int64_t get_int64(std::string_view key, std::int64_t least = std::numeric_limits<std::int64_t>::min()) const {
    return at(key).as_int64(least);
  }
  double get_double(std::string_view key, double least = std::numeric_limits<double>::lowest()) const { return at(key).as_double(least); }
  std::string get_string(std::string_view key) const { return at(key).as_string(); }
  /// Refuses any other key, naming the nearest of these.
  void expect_keys(std::initializer_list<std::string_view> known) const;

  /// Elements of an array, in order.
  std::vector<Json> items() const;
  std::size_t size() const;

  /// The value as JSON: on one line, or indented for people.
  std::string one_line() const;
  std::string pretty() const;

  const std::string& source() const;
  /// RFC 6901; empty for the whole document.
  const std::string& pointer() const { return pointer_; }
  /// Throws Error{bad_input} that names source and pointer.
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  struct Document;
  Json(std::shared_ptr<const Document> document, const detail::Node* node, std::string pointer);

  std::shared_ptr<const Document> document_;
  const detail::Node* node_;
  std::string pointer_;
};

/// One JSON object on one line, keys in the order they were added; for lines of a log. NaN and infinities become null.
class JsonLine {
 public:
  JsonLine& add(std::string_view key, std::string_view value);
  JsonLine& add(std::string_view key, const char* value) { return add(key, std::string_view{value}); }
  JsonLine& add(std::string_view key, const std::string& value) { return add(key, std::string_view{value}); }
  template <std::same_as<bool> T>
  JsonLine& add(std::string_view key, T value) {
    return append(key, value ? "true" : "false");
  }
  template <std::integral T>
  requires(!std::same_as<T, bool>) JsonLine& add(std::string_view key, T value) { return append(key, std::to_string(value)); }
  JsonLine& add(std::string_view key, double value);
  JsonLine& add_null(std::string_view key) { return append(key, "null"); }
  /// `json` must be one JSON value; line breaks in it are removed. Throws Error{bad_input} when it is not JSON.
  JsonLine& add_json(std::string_view key, std::string_view json);

  /// "{...}" without a line end.
  std::string text() const { return "{" + members_ + "}"; }

 private:
  JsonLine& append(std::string_view key, std::string_view json);
  std::string members_;
};

/// "[a, b, c]" of numbers or strings, for add_json.
std::string json_array(const std::vector<std::int64_t>&);
std::string json_array(const std::vector<double>&);
std::string json_array(const std::vector<std::string>&);

/// The head of each of our files: "format" and "version". Refuses another format, and a version this program does not read, naming the
/// one it does.
void require_format(const Json& document, std::string_view format, std::int64_t version);

/// `text` as a JSON string, quotes included; bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

}  // namespace flotilla::files
