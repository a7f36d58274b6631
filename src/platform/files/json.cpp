#include "flotilla/files/json.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/nearest.hpp"
#include "flotilla/files/text_file.hpp"
#include "node.hpp"

namespace flotilla::files {

namespace detail {

std::string pointer_step(std::string_view key) {
  std::string step = "/";
  for (const char c : key) {
    if (c == '~')
      step += "~0";
    else if (c == '/')
      step += "~1";
    else
      step += c;
  }
  return step;
}

}  // namespace detail

using detail::Node;
using detail::ObjectMember;

namespace {

/// Members of large objects (vocabularies) by key; every other object is searched from its beginning.
class Index {
 public:
  explicit Index(const Node& root) { add(root); }

  const ObjectMember* find(const Node& node, std::string_view key) const {
    const auto* object = std::get_if<Node::Object>(&node.value);
    if (!object) return nullptr;
    if (const auto large = members_.find(object); large != members_.end()) {
      const auto found = large->second.find(key);
      return found == large->second.end() ? nullptr : found->second;
    }
    const auto found = std::ranges::find(*object, key, &ObjectMember::key);
    return found == object->end() ? nullptr : &*found;
  }

 private:
  static constexpr std::size_t small = 64;

  void add(const Node& node) {
    if (const auto* array = std::get_if<Node::Array>(&node.value))
      for (const Node& element : *array) add(element);
    const auto* object = std::get_if<Node::Object>(&node.value);
    if (!object) return;
    if (object->size() > small)
      for (const ObjectMember& member : *object) members_[object].emplace(member.key, &member);
    for (const ObjectMember& member : *object) add(member.node);
  }

  std::unordered_map<const Node::Object*, std::unordered_map<std::string_view, const ObjectMember*>> members_;
};

}  // namespace

struct Json::Document {
  std::string source;
  Node root;
  Index index{root};
};

namespace {

/// "the string 'abc'", "an array": what stands where something else was expected.
std::string describe(const Node& node) {
  switch (node.value.index()) {
    case 0: return "null";
    case 4: return "the string " + in_quotes(std::get<std::string>(node.value));
    case 5: return "an array";
    case 6: return "an object";
    default: return detail::one_line(node);
  }
}

constexpr double exact_integers = 0x1p53;  // every integer below is a double

}  // namespace

Json::Json(std::shared_ptr<const Document> document, const Node* node, std::string pointer)
    : document_{std::move(document)}, node_{node}, pointer_{std::move(pointer)} {}

Json Json::parse(std::string_view text, std::string_view source) {
  const auto document = std::shared_ptr<const Document>{new Document{std::string{source}, detail::parse(text, source)}};
  return {document, &document->root, ""};
}

Json Json::read(const std::filesystem::path& path) { return parse(read_text(path), path.string()); }

const std::string& Json::source() const { return document_->source; }

void Json::refuse(std::string_view what) const {
  throw Error{ErrorKind::bad_input, text(source(), ": ", pointer_.empty() ? "" : printable(pointer_) + ": ", what)};
}

bool Json::is_null() const { return std::holds_alternative<std::nullptr_t>(node_->value); }
bool Json::is_number() const { return std::holds_alternative<std::int64_t>(node_->value) || std::holds_alternative<double>(node_->value); }
bool Json::is_string() const { return std::holds_alternative<std::string>(node_->value); }
bool Json::is_array() const { return std::holds_alternative<Node::Array>(node_->value); }
bool Json::is_object() const { return std::holds_alternative<Node::Object>(node_->value); }

bool Json::as_bool() const {
  if (const bool* value = std::get_if<bool>(&node_->value)) return *value;
  refuse("expected true or false, got " + describe(*node_));
}

std::int64_t Json::as_int64(std::int64_t least, std::int64_t most) const {
  const auto* value = std::get_if<std::int64_t>(&node_->value);
  const auto* real = std::get_if<double>(&node_->value);
  const bool whole = value || (real && std::fabs(*real) <= exact_integers && std::trunc(*real) == *real);
  const std::int64_t found = value ? *value : whole ? static_cast<std::int64_t>(*real) : 0;
  if (whole && found >= least && found <= most) return found;
  if (!whole) refuse("expected an integer, got " + describe(*node_));
  refuse(text("expected at ", found < least ? "least " : "most ", found < least ? least : most, ", got ", describe(*node_)));
}

int Json::as_int(int least, int most) const { return static_cast<int>(as_int64(least, most)); }

double Json::as_double(double least, double most) const {
  const auto* integer = std::get_if<std::int64_t>(&node_->value);
  if (!integer && !std::holds_alternative<double>(node_->value)) refuse("expected a number, got " + describe(*node_));
  const double value = integer ? static_cast<double>(*integer) : std::get<double>(node_->value);
  if (value < least) refuse(text("expected at least ", least, ", got ", describe(*node_)));
  if (value > most) refuse(text("expected at most ", most, ", got ", describe(*node_)));
  return value;
}

std::string Json::as_string() const {
  if (const auto* value = std::get_if<std::string>(&node_->value)) return *value;
  refuse("expected a string, got " + describe(*node_));
}

bool Json::has(std::string_view key) const {
  if (!is_object()) refuse("expected an object, got " + describe(*node_));
  return document_->index.find(*node_, key) != nullptr;
}

Json Json::at(std::string_view key) const {
  if (!is_object()) refuse("expected an object, got " + describe(*node_));
  const ObjectMember* member = document_->index.find(*node_, key);
  if (!member) refuse(text("key ", in_quotes(key), " is missing"));
  return {document_, &member->node, pointer_ + detail::pointer_step(key)};
}

std::vector<std::string> Json::keys() const {
  if (!is_object()) refuse("expected an object, got " + describe(*node_));
  std::vector<std::string> names;
  for (const ObjectMember& member : std::get<Node::Object>(node_->value)) names.push_back(member.key);
  return names;
}

namespace {

/// What to say of an unknown key: the nearest known one, or all of them.
std::string meant(std::string_view key, const std::vector<std::string>& known) {
  if (const auto near = suggestion(key, known); !near.empty()) return near;
  std::string all;
  for (const auto& name : known) all += (all.empty() ? "" : ", ") + name;
  return "; expected one of " + all;
}

}  // namespace

void Json::expect_keys(std::initializer_list<std::string_view> known) const {
  for (const std::string& key : keys())
    if (std::ranges::find(known, key) == known.end())
      refuse(text("unknown key ", in_quotes(key), meant(key, {known.begin(), known.end()})));
}

std::vector<Json> Json::items() const {
  if (!is_array()) refuse("expected an array, got " + describe(*node_));
  std::vector<Json> elements;
  for (const Node& node : std::get<Node::Array>(node_->value)) elements.push_back({document_, &node, text(pointer_, "/", elements.size())});
  return elements;
}

std::size_t Json::size() const {
  if (const auto* array = std::get_if<Node::Array>(&node_->value)) return array->size();
  if (const auto* object = std::get_if<Node::Object>(&node_->value)) return object->size();
  refuse("expected an array or an object, got " + describe(*node_));
}

std::string Json::one_line() const { return detail::one_line(*node_); }
std::string Json::pretty() const { return detail::pretty(*node_); }

}  // namespace flotilla::files
