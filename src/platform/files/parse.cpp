#include <algorithm>
#include <nlohmann/json.hpp>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/files/json.hpp"
#include "node.hpp"

namespace flotilla::files {
namespace detail {
namespace {

constexpr std::size_t deepest = 64;
constexpr std::size_t most_values = 2'000'000;

/// "12:7": line and column, from 1, of the byte at `offset`.
std::string line_and_column(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = std::ranges::count(before, '\n') + 1;
  const std::size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  return flotilla::text(line, ":", before.size() - start + 1);
}

/// nlohmann says "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ...": the place is ours to say.
std::string without_lead(std::string_view what) {
  const std::size_t column = what.find(", column ");
  const std::size_t colon = column == what.npos ? what.find("] ") : what.find(": ", column);
  return printable(colon == what.npos ? what : what.substr(colon + 2));
}

/// Builds our tree, so that size and depth have bounds and an object cannot say a thing twice.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(std::string_view text, std::string_view source) : text_{text}, source_{source} {}
  Node take() { return std::move(root_); }

  bool null() override { return scalar(Node{}); }
  bool boolean(bool v) override { return scalar(Node{v}); }
  bool number_integer(number_integer_t v) override { return scalar(Node{v}); }
  bool number_unsigned(number_unsigned_t v) override {
    return scalar(v > static_cast<number_unsigned_t>(INT64_MAX) ? Node{static_cast<double>(v)} : Node{static_cast<std::int64_t>(v)});
  }
  bool number_float(number_float_t v, const string_t&) override { return scalar(Node{v}); }
  bool string(string_t& v) override { return scalar(Node{std::move(v)}); }
  bool binary(binary_t&) override { return refuse("binary value; expected JSON text"); }

  bool start_object(std::size_t) override { return open(Node{Node::Object{}}); }
  bool key(string_t& name) override {
    std::get<Node::Object>(open_.back()->value).push_back({std::move(name), Node{}});
    return true;
  }
  bool end_object() override {
    require_distinct_keys(std::get<Node::Object>(open_.back()->value));
    open_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override { return open(Node{Node::Array{}}); }
  bool end_array() override {
    open_.pop_back();
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) override {
    throw Error{ErrorKind::bad_input, flotilla::text(source_, ":", line_and_column(text_, position == 0 ? 0 : position - 1),
                                                     ": not JSON: ", without_lead(error.what()))};
  }

 private:
  Node* place(Node node) {
    if (++values_ > most_values) refuse(flotilla::text("more than ", most_values, " values; expected a plan, profile or manifest"));
    if (open_.empty()) return &(root_ = std::move(node));
    if (auto* array = std::get_if<Node::Array>(&open_.back()->value)) return &array->emplace_back(std::move(node));
    return &(std::get<Node::Object>(open_.back()->value).back().node = std::move(node));
  }
  bool scalar(Node node) { return place(std::move(node)) != nullptr; }
  bool open(Node node) {
    if (open_.size() == deepest) refuse(flotilla::text("nested deeper than ", deepest, " levels"));
    open_.push_back(place(std::move(node)));
    return true;
  }

  void require_distinct_keys(const Node::Object& object) {
    std::vector<std::string_view> keys;
    for (const ObjectMember& member : object) keys.push_back(member.key);
    std::ranges::sort(keys);
    const auto twice = std::ranges::adjacent_find(keys);
    if (twice != keys.end()) refuse(flotilla::text("key ", in_quotes(*twice), " occurs twice; remove one"));
  }

  std::string pointer() const {
    std::string path;
    for (const Node* node : open_)
      if (const auto* array = std::get_if<Node::Array>(&node->value))
        path += flotilla::text("/", array->empty() ? 0 : array->size() - 1);
      else if (const auto& object = std::get<Node::Object>(node->value); node != open_.back() && !object.empty())
        path += pointer_step(object.back().key);
    return path;
  }
  [[noreturn]] bool refuse(const std::string& what) const {
    const std::string where = printable(pointer());
    throw Error{ErrorKind::bad_input, flotilla::text(source_, ": ", where.empty() ? "" : where + ": ", what)};
  }

  std::string_view text_, source_;
  Node root_;
  std::vector<Node*> open_;
  std::size_t values_ = 0;
};

}  // namespace

Node parse(std::string_view text, std::string_view source) {
  Builder builder{text, source};
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

}  // namespace detail

std::string json_string(std::string_view name) {
  return nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace flotilla::files
