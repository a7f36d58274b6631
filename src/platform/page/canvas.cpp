#include "canvas.hpp"

#include <array>
#include <cmath>

#include "flotilla/base/figures.hpp"
#include "flotilla/page/document.hpp"

namespace flotilla::page {
namespace {

constexpr double wide = 960, narrow = 350;  // pixels, about as they are shown: text keeps its size
constexpr double character = 6.9;           // of a wide font: a narrow one leaves room

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }
/// Chinese and the like are twice as wide.
double width_of_character(char first) { return static_cast<unsigned char>(first) >= 0xe3 ? 2 * character : character; }

std::string coordinates(const std::vector<Point>& points) {
  std::string out;
  for (const auto& [x, y] : points) out += formatted("%.1f,", x) + formatted("%.1f ", y);
  return out;
}

Markup with_tooltip(std::string_view tooltip) { return tooltip.empty() ? Markup{} : element("title", {}, tooltip); }

}  // namespace

std::string surface(Colour colour) { return text("f", static_cast<int>(colour)); }
std::string stroke(Colour colour) { return text("s", static_cast<int>(colour)); }

std::string_view ink_on(Colour colour) { return colour == Colour::blue ? "on-blue" : "on"; }

double width_of(std::string_view words) {
  double width = 0;
  for (const char c : words)
    if (begins_character(c)) width += width_of_character(c);
  return width;
}

std::string fitted(std::string_view words, double width) {
  if (width_of(words) <= width) return std::string{words};
  double taken = character;
  std::size_t end = 0, shown = 0;
  while (end < words.size()) {
    taken += width_of_character(words[end]);
    if (taken > width) break;
    do ++end;
    while (end < words.size() && !begins_character(words[end]));
    ++shown;
  }
  return shown < 3 ? "" : std::string{words.substr(0, end)} + "…";
}

void Canvas::line(Point from, Point to, std::string_view classes) {
  content_ += element("line", {{"x1", from.x}, {"y1", from.y}, {"x2", to.x}, {"y2", to.y}, {"class", classes}});
}

void Canvas::polyline(const std::vector<Point>& points, std::string_view classes) {
  content_ += element("polyline", {{"points", coordinates(points)}, {"class", classes}});
}

void Canvas::box(const Area& area, std::string_view classes, std::string_view tooltip, double round) {
  content_ +=
      element("rect", {{"x", area.x}, {"y", area.y}, {"width", area.width}, {"height", area.height}, {"rx", round}, {"class", classes}},
              with_tooltip(tooltip));
}

void Canvas::shape(std::string_view path, std::string_view classes, std::string_view tooltip) {
  content_ += element("path", {{"d", path}, {"class", classes}}, with_tooltip(tooltip));
}

void Canvas::words(Point at, std::string_view words, Anchor anchor, std::string_view classes) {
  constexpr std::array<std::string_view, 3> names{"start", "middle", "end"};
  content_ +=
      element("text", {{"x", at.x}, {"y", at.y}, {"text-anchor", names.at(static_cast<std::size_t>(anchor))}, {"class", classes}}, words);
}

Markup Canvas::svg(const Caption& caption, bool is_narrow) const {
  return element("svg",
                 {{"class", is_narrow ? "narrow" : "wide-only"},
                  {"viewBox", text("0 0 ", std::lround(width_), " ", std::lround(height_))},
                  {"role", "img"},
                  {"aria-label", caption.title + ". " + caption.description}},
                 element("desc", {}, caption.description) + content_);
}

Markup legend_entry(const Markup& mark, std::string_view name) {
  return element("span", {}, element("svg", {{"viewBox", "0 0 10 10"}, {"aria-hidden", "true"}}, mark) + words(name));
}

Markup legend_around(const Markup& entries) { return entries.empty() ? entries : element("div", {{"class", "legend"}}, entries); }

Markup legend_of(const std::vector<LegendEntry>& entries) {
  Markup out;
  for (const auto& [colour, name] : entries)
    out += legend_entry(element("rect", {{"width", 10}, {"height", 10}, {"rx", 2}, {"class", surface(colour)}}), name);
  return legend_around(out);
}

int x_ticks(double width) { return std::max(3, static_cast<int>(width / 80)); }
int y_ticks(double height) { return std::max(2, static_cast<int>(height / 45)); }

double label_room(const Scale& y, double height) {
  double room = 0;
  for (const auto& tick : y.ticks(y_ticks(height))) room = std::max(room, width_of(tick.label));
  return room + 10;
}

void draw_x_axis(Canvas& canvas, const Area& area, const Scale& x) {
  for (const auto& tick : x.ticks(x_ticks(area.width))) {
    const double at = area.x + x.place(tick.value) * area.width;
    canvas.line({at, area.y}, {at, area.bottom()}, "grid");
    canvas.words({at, area.bottom() + 16}, tick.label, Anchor::middle, "soft");
  }
  canvas.line({area.x, area.bottom()}, {area.right(), area.bottom()}, "axis");
  canvas.words({area.x + area.width / 2, area.bottom() + 33}, x.title(), Anchor::middle, "soft");
}

void draw_axes(Canvas& canvas, const Area& area, const Scale& x, const Scale& y) {
  draw_x_axis(canvas, area, x);
  for (const auto& tick : y.ticks(y_ticks(area.height))) {
    const double at = area.bottom() - y.place(tick.value) * area.height;
    canvas.line({area.x, at}, {area.right(), at}, "grid");
    canvas.words({area.x - 7, at + 4}, tick.label, Anchor::end, "soft");
  }
  canvas.words({4, area.y - 10}, y.title(), Anchor::start, "soft");
}

Markup figure_of(const Caption& caption, const Markup& legend, const std::function<Canvas(double)>& draw, const Markup& table) {
  return element("figure", {},
                 element("figcaption", {}, caption.title) + element("p", {{"class", "about"}}, caption.description) + legend +
                     draw(wide).svg(caption, false) + draw(narrow).svg(caption, true) + folded("Values", table));
}

}  // namespace flotilla::page
