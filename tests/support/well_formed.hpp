#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace flotilla::tests {

/// Why a page is no well-formed XML: an element that is not ended, or not here; a bare "<" or "&"; a value without quotation marks. Empty:
/// it is. It reads what our pages are made of, with a code of its own: elements, attributes, text and the five references.
inline std::string why_not_well_formed(std::string_view page) {
  std::vector<std::string> open;
  const auto wrong = [&](std::size_t at, const std::string& why) { return why + " at: " + std::string{page.substr(at, 80)}; };
  const auto reference_ends = [&](std::size_t at) {
    for (const std::string_view known : {"&lt;", "&gt;", "&amp;", "&quot;", "&#39;"})
      if (page.substr(at, known.size()) == known) return true;
    return false;
  };
  std::size_t i = page.find('\n') + 1;  // behind <!DOCTYPE html>
  while (i < page.size()) {
    if (page[i] == '&' && !reference_ends(i)) return wrong(i, "a bare &");
    if (page[i] != '<') {
      ++i;
      continue;
    }
    const bool ends = page[i + 1] == '/';
    std::size_t at = i + (ends ? 2 : 1);
    const std::size_t name_at = at;
    while (at < page.size() && (std::isalnum(static_cast<unsigned char>(page[at])) != 0 || page[at] == '-')) ++at;
    const std::string name{page.substr(name_at, at - name_at)};
    if (name.empty()) return wrong(i, "a bare <");
    while (at < page.size() && page[at] == ' ') {  // name="value"
      const auto equals = page.find("=\"", at);
      const auto close = equals == std::string_view::npos ? equals : page.find('"', equals + 2);
      if (close == std::string_view::npos) return wrong(at, "an attribute without a value");
      for (const char c : page.substr(at + 1, equals - at - 1))
        if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-') return wrong(at, "no name of an attribute");
      for (std::size_t v = equals + 2; v < close; ++v)
        if (page[v] == '<' || (page[v] == '&' && !reference_ends(v))) return wrong(v, "a bare character in a value");
      at = close + 1;
    }
    const bool ends_itself = page.substr(at, 2) == "/>";
    if (!ends_itself && (at >= page.size() || page[at] != '>')) return wrong(i, "an element that is not closed");
    if (ends) {
      if (open.empty() || open.back() != name) return wrong(i, "an end of another element than " + (open.empty() ? "none" : open.back()));
      open.pop_back();
    } else if (!ends_itself) {
      open.push_back(name);
    }
    i = at + (ends_itself ? 2 : 1);
  }
  return open.empty() ? "" : "no end of " + open.back();
}

}  // namespace flotilla::tests
