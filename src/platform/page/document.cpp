#include "flotilla/page/document.hpp"

#include "style.hpp"

namespace flotilla::page {
namespace {

// 'unsafe-inline' is the style below. Everything else is forbidden: scripts, pictures, fonts, frames, forms, requests.
constexpr std::string_view policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

Markup head(std::string_view title) {
  return element(
      "head", {},
      element("meta", {{"charset", "utf-8"}}) + element("meta", {{"http-equiv", "Content-Security-Policy"}, {"content", policy}}) +
          element("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}}) +
          element("meta", {{"name", "referrer"}, {"content", "no-referrer"}}) + element("title", {}, title) + element("style", {}, style));
}

Markup cell(Name name, const Column& column, const std::string& text) {
  return column.number ? element(name, {{"class", "number"}}, text) : element(name, {}, text);
}

Markup tiles_around(std::string_view classes, const std::vector<Tile>& all) {
  Markup out;
  for (const auto& tile : all)
    out += element("div", {{"class", tile.edge ? text("tile e", static_cast<int>(*tile.edge)) : "tile"}},
                   element("div", {}, tile.label) + element("strong", {}, tile.value) + element("div", {}, tile.note));
  return element("div", {{"class", classes}}, out);
}

}  // namespace

std::string document(std::string_view title, const Markup& body) {
  return "<!DOCTYPE html>\n" + element("html", {{"lang", "en"}}, head(title) + element("body", {}, element("main", {}, body))).text() +
         "\n";
}

Markup heading(std::string_view title, std::string_view lead) {
  return element("header", {}, element("h1", {}, title) + element("p", {{"class", "lead"}}, lead));
}

Markup section(std::string_view title, const Markup& content) {
  return content.empty() ? content : element("section", {}, element("h2", {}, title) + content);
}

Markup paragraph(std::string_view text) { return element("p", {}, text); }

Markup tiles(const std::vector<Tile>& all) { return tiles_around("tiles", all); }

Markup small_tiles(const std::vector<Tile>& all) { return tiles_around("tiles small", all); }

Markup notice(std::string_view text) { return element("p", {{"class", "notice"}}, text); }

Markup table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows) {
  Markup head, body;
  for (const auto& column : columns) head += cell("th", column, column.title);
  for (const auto& row : rows) {
    Markup cells;
    for (std::size_t i = 0; i < columns.size(); ++i) cells += cell("td", columns[i], i < row.size() ? row[i] : "");
    body += element("tr", {}, cells);
  }
  return element("div", {{"class", "wide"}, {"tabindex", "0"}},
                 element("table", {}, element("thead", {}, element("tr", {}, head)) + element("tbody", {}, body)));
}

Markup facts(const std::vector<std::pair<std::string, std::string>>& all) {
  Markup out;
  for (const auto& [key, value] : all) out += element("dt", {}, key) + element("dd", {}, value);
  return element("dl", {}, out);
}

Markup folded(std::string_view title, const Markup& content) { return element("details", {}, element("summary", {}, title) + content); }

}  // namespace flotilla::page
