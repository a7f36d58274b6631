#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/base/foreign_text.hpp"
#include "token_layout.hpp"

namespace flotilla::data {
namespace {

constexpr std::string_view npy_magic{"\x93NUMPY", 6};
constexpr std::int64_t largest_header = 1 << 16;  // bytes; NumPy itself warns beyond 10,000

/// What the header's dictionary says, still unjudged.
struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;
};

/// Reads the one Python dictionary that NumPy writes: {'descr': '<u2', 'fortran_order': False, 'shape': (1000,), }.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::int64_t start, const std::filesystem::path& path) : text_{text}, start_{start}, path_{path} {}

  Header parse() {
    Header header;
    expect('{');
    while (!accept('}')) {
      entry(header);
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ < text_.size()) fail("the end of the header");
    return header;
  }

 private:
  void entry(Header& header) {
    skip_space();
    const auto key_at = at_;
    const auto key = quoted();
    expect(':');
    if (key == "descr" && !header.descr) {
      header.descr = type_name();
    } else if (key == "fortran_order" && !header.fortran_order) {
      header.fortran_order = boolean();
    } else if (key == "shape" && !header.shape) {
      header.shape = tuple();
    } else {
      at_ = key_at;
      fail("each of the keys 'descr', 'fortran_order' and 'shape' once");
    }
  }

  std::string type_name() {
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[') fail("one integer type, not a structured one");
    return quoted();
  }

  std::string quoted() {
    skip_space();
    const char mark = at_ < text_.size() ? text_[at_] : '\0';
    if (mark != '\'' && mark != '"') fail("a quoted text");
    const auto end = text_.find(mark, at_ + 1);
    if (end == std::string_view::npos) fail("a text with a closing quote");
    std::string value{text_.substr(at_ + 1, end - at_ - 1)};
    at_ = end + 1;
    return value;
  }

  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair{std::string_view{"True"}, true}, {"False", false}}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return value;
    }
    fail("True or False");
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    expect('(');
    while (!accept(')')) {
      values.push_back(number());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  std::int64_t number() {
    skip_space();
    std::int64_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc{} || value < 0) fail("a whole number that is not negative");
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view{" \n\t\r"}.find(text_[at_]) != std::string_view::npos) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string{"'"} + c + "'");
  }
  [[noreturn]] void fail(const std::string& expected) const {
    refuse(path_, start_ + static_cast<std::int64_t>(at_), "NumPy header: expected ", expected);
  }

  std::string_view text_;
  std::int64_t start_;
  const std::filesystem::path& path_;
  std::size_t at_ = 0;
};

Element element_of(const std::string& descr, const std::filesystem::path& path, std::int64_t at) {
  constexpr std::array<std::string_view, 8> widths{"u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"};
  const std::string_view name = std::string_view{descr}.substr(descr.empty() ? 0 : 1);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (name != widths[i]) continue;
    if (descr[0] == '<' || (i < 2 && descr[0] == '|')) return static_cast<Element>(i);
    refuse(path, at, "expected little-endian tokens, found ", in_quotes(descr), "; convert with array.astype('<", name, "')");
  }
  refuse(path, at, "expected an integer type such as '<u2', found ", in_quotes(descr), "; convert with array.astype('<u2')");
}

std::int64_t length_of(const std::vector<std::int64_t>& shape, const std::filesystem::path& path, std::int64_t at) {
  if (shape.size() != 1) {
    refuse(path, at, "expected an array of one dimension, found ", shape.size(), "; save array.reshape(-1)");
  }
  if (shape[0] < 1) refuse(path, at, "expected at least one token, found an empty array");
  return shape[0];
}

/// Bytes [start, start + size) that hold the dictionary.
struct Extent {
  std::int64_t start = 0, size = 0;
};

Extent header_extent(FileBytes bytes, const std::filesystem::path& path) {
  require_header(bytes, path, 10, "a NumPy header");
  if (!is_npy(bytes)) refuse(path, 0, "expected NumPy's magic \\x93NUMPY");
  const auto major = load<std::uint8_t>(bytes, 6);
  if (major < 1 || major > 3) refuse(path, 6, "expected version 1, 2 or 3 of the NumPy format, found ", static_cast<int>(major));
  Extent extent{10, load<std::uint16_t>(bytes, 8)};
  if (major > 1) {
    require_header(bytes, path, 12, "a NumPy header");
    extent = {12, load<std::uint32_t>(bytes, 8)};
  }
  if (extent.size > largest_header) refuse(path, 8, "expected a header of at most ", largest_header, " bytes, found ", extent.size);
  require_header(bytes, path, extent.start + extent.size, "a NumPy header");
  return extent;
}

}  // namespace

bool is_npy(FileBytes bytes) {
  return bytes.size() >= npy_magic.size() && std::memcmp(bytes.data(), npy_magic.data(), npy_magic.size()) == 0;
}

TokenLayout npy_layout(FileBytes bytes, const std::filesystem::path& path) {
  const auto [start, size] = header_extent(bytes, path);
  const std::string_view text{reinterpret_cast<const char*>(bytes.data()) + start, static_cast<std::size_t>(size)};
  const auto header = HeaderParser{text, start, path}.parse();
  if (!header.descr || !header.fortran_order || !header.shape) {
    refuse(path, start, "NumPy header: expected the keys 'descr', 'fortran_order' and 'shape'");
  }
  if (*header.fortran_order) refuse(path, start, "expected an array in C order; save numpy.ascontiguousarray(array)");
  const TokenLayout layout{element_of(*header.descr, path, start), start + size, length_of(*header.shape, path, start)};
  require_exact_size(bytes, path, layout, start);
  return layout;
}

}  // namespace flotilla::data
