#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "flotilla/page/colour.hpp"
#include "flotilla/page/markup.hpp"

namespace flotilla::page {

/// The whole file. Its policy (Content-Security-Policy) lets it load nothing and run nothing; its style suits light and dark screens,
/// phones and paper. It is well-formed XML, too.
std::string document(std::string_view title, const Markup& body);

/// The head of a page: what it is about, and a sentence below.
Markup heading(std::string_view title, std::string_view lead);

/// A part of a page under a heading of its own; nothing where it has no content.
Markup section(std::string_view title, const Markup& content);

Markup paragraph(std::string_view words);

/// One figure that counts: "tokens/s", "12.3k", "MFU 41 %".
struct Tile {
  std::string label, value, note{};
  std::optional<Colour> edge{};  ///< what its words say at a glance
};
Markup tiles(const std::vector<Tile>&);
/// Many of them: smaller and closer.
Markup small_tiles(const std::vector<Tile>&);

/// What somebody has to know first: why a plan does not fit, why a run ended.
Markup notice(std::string_view words);

struct Column {
  std::string title;
  bool number = false;  ///< stands at the right
};
/// Rows may be shorter than the head. It scrolls sideways where it is wider than the page.
Markup table(const std::vector<Column>&, const std::vector<std::vector<std::string>>& rows);

/// Lines of key and value.
Markup facts(const std::vector<std::pair<std::string, std::string>>&);

/// Hidden behind its title until somebody asks; open on paper.
Markup folded(std::string_view title, const Markup& content);

}  // namespace flotilla::page
