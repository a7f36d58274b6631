#include "bad_lines.hpp"

#include <array>
#include <cctype>
#include <charconv>

#include "document.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/unicode/utf8.hpp"

namespace flotilla::ingest {
namespace {

constexpr std::string_view replacement = "\\uFFFD";

/// The code unit of "\uXXXX" at `at`; -1: there is none.
int code_unit(std::string_view line, std::size_t at) {
  if (at + 6 > line.size() || line[at] != '\\' || line[at + 1] != 'u') return -1;
  int unit = 0;
  const auto* end = line.data() + at + 6;
  const auto read = std::from_chars(line.data() + at + 2, end, unit, 16);
  return read.ec == std::errc{} && read.ptr == end ? unit : -1;
}
bool is_high(int unit) { return unit >= 0xd800 && unit < 0xdc00; }
bool is_low(int unit) { return unit >= 0xdc00 && unit < 0xe000; }

/// Goes through a line once, inside and outside of its strings.
class LineRepair {
 public:
  explicit LineRepair(std::string_view line) : line_{line} {}

  RepairedLine result() {
    if (unicode::valid_prefix(line_) != line_.size()) {
      whole_ = unicode::repaired(line_);
      line_ = whole_;
      note("not UTF-8");
    }
    while (at_ < line_.size()) in_string_ ? take_in_string() : take_outside();
    return std::move(out_);
  }

 private:
  void note(const char* reason) {
    if (out_.reason.empty()) out_.reason = reason;
  }
  void take(std::size_t bytes) {
    out_.text += line_.substr(at_, bytes);
    at_ += bytes;
  }
  void take_in_string() {
    if (line_[at_] != '\\') {
      in_string_ = line_[at_] != '"';
      return take(1);
    }
    const int unit = code_unit(line_, at_);
    if (is_high(unit) && is_low(code_unit(line_, at_ + 6))) return take(12);
    if (!is_high(unit) && !is_low(unit)) return take(2);
    out_.text += replacement;
    at_ += 6;
    note("lone surrogate");
  }
  void take_outside() {
    for (const std::string_view word : {"NaN", "Infinity", "-Infinity"})
      if (line_.substr(at_).starts_with(word)) {
        out_.text += "null";
        at_ += word.size();
        return note("NaN");
      }
    in_string_ = line_[at_] == '"';
    take(1);
  }

  std::string_view line_;
  std::string whole_;
  RepairedLine out_;
  std::size_t at_ = 0;
  bool in_string_ = false;
};

/// Whether the line's text is there and null.
bool has_null_text(const DocumentPart& item, const Encoding& how) {
  try {
    const auto line = files::Json::parse(item.bytes, item.place);
    for (const auto& field :
         how.field.empty() ? std::vector<std::string>{"text", "messages", "prompt", "completion"} : std::vector{how.field})
      if (line.has(field))
        return line.at(field).is_null() || (field == "prompt" && line.has("completion") && line.at("completion").is_null());
  } catch (const Error&) {
  }
  return false;
}

/// What is bad about a line, and what it is once repaired; no document where nothing helps.
struct Diagnosis {
  std::string reason;
  std::optional<Document> repaired;
};

Diagnosis diagnosis_of(const DocumentPart& item, const Encoding& how) {
  if (has_null_text(item, how)) return {"null text", whole_document({})};
  const auto line = repaired_line(item.bytes);
  try {
    const auto json = files::Json::parse(line.text, item.place);
    const auto reason = line.reason.empty() ? std::string{"no document"} : line.reason;
    try {
      return {reason, line.reason.empty() ? std::nullopt : std::optional{read_document(json, how)}};
    } catch (const Error&) {
      return {"no document", {}};
    }
  } catch (const Error&) {
    return {"not JSON", {}};
  }
}

}  // namespace

RepairedLine repaired_line(std::string_view line) { return LineRepair{line}.result(); }

std::optional<Document> document_of_line(const DocumentPart& item, const Encoding& how, Counts& counts) {
  try {
    return read_document(files::Json::parse(item.bytes, item.place), how);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input) throw;
    auto [reason, repaired] = diagnosis_of(item, how);
    const bool refused = how.bad_lines == BadLines::refuse || (how.bad_lines == BadLines::repair && !repaired);
    if (refused)
      throw Error{error.kind(), text(error.what(), "; --bad-lines skip leaves such lines out", repaired ? ", repair mends this one" : "",
                                     " (flotilla train: --data.bad-lines)")};
    ++counts.bad_lines.by_reason[reason];
    counts.bad_lines.places = {error.what()};
    return how.bad_lines == BadLines::skip ? std::nullopt : std::move(repaired);
  }
}

const std::vector<std::string>& bad_lines_names() {
  static const std::vector<std::string> names{"refuse", "skip", "repair"};
  return names;
}

std::int64_t BadLineCounts::total() const {
  std::int64_t sum = 0;
  for (const auto& [reason, count] : by_reason) sum += count;
  return sum;
}

void BadLineCounts::add(const BadLineCounts& other) {
  for (const auto& [reason, count] : other.by_reason) by_reason[reason] += count;
  for (const auto& place : other.places)
    if (places.size() < most_places) places.push_back(place);
}

std::string BadLineCounts::in_words() const {
  if (by_reason.empty()) return {};
  std::string reasons;
  for (const auto& [reason, count] : by_reason) reasons += text(reasons.empty() ? "" : ", ", count, " ", reason);
  return text(total(), total() == 1 ? " bad line (" : " bad lines (", reasons, ")");
}

}  // namespace flotilla::ingest
