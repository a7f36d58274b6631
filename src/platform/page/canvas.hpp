#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "axis.hpp"
#include "flotilla/page/markup.hpp"
#include "flotilla/page/plots.hpp"

namespace flotilla::page {

/// Of a table behind a plot: a reader who wants more has the files that the plot is of.
constexpr std::size_t most_table_rows = 200;

/// Left, top, width and height, in pixels.
struct Area {
  double x = 0, y = 0, width = 0, height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

enum class Anchor { start, middle, end };

/// An SVG in the making. Classes are the style's (style.cpp).
class Canvas {
 public:
  Canvas(double width, double height) : width_{width}, height_{height} {}

  void line(Point from, Point to, std::string_view classes);
  void polyline(const std::vector<Point>&, std::string_view classes);
  /// `tooltip` where it is not empty.
  void box(const Area&, std::string_view classes, std::string_view tooltip = {}, double round = 0);
  void shape(std::string_view path, std::string_view classes, std::string_view tooltip = {});
  void words(Point at, std::string_view words, Anchor = Anchor::start, std::string_view classes = {});

  double width() const { return width_; }
  Markup svg(const Caption&, bool narrow) const;

 private:
  double width_, height_;
  Markup content_;
};

/// A colour's class for surfaces and for lines.
std::string surface(Colour);
std::string stroke(Colour);

/// What text on a surface of that colour is readable in.
std::string_view ink_on(Colour);

/// About how wide a line of text is at 12 pixels.
double width_of(std::string_view words);
/// The text, or its beginning and an ellipsis, no wider than that; empty where not even three characters fit.
std::string fitted(std::string_view words, double width);

/// Axes around an area: ticks, grid, titles.
void draw_axes(Canvas&, const Area&, const Scale& x, const Scale& y);
void draw_x_axis(Canvas&, const Area&, const Scale& x);
/// Room that a vertical axis' labels take at the left.
double label_room(const Scale& y, double height);
int x_ticks(double width);
int y_ticks(double height);

/// What colours stand for; of one entry, its mark has 10 by 10 pixels.
Markup legend_entry(const Markup& mark, std::string_view name);
Markup legend_around(const Markup& entries);
Markup legend_of(const std::vector<LegendEntry>&);

/// The figure around a drawing that is made twice. `draw` gets a width in pixels.
Markup figure_of(const Caption&, const Markup& legend, const std::function<Canvas(double width)>& draw, const Markup& table);

}  // namespace flotilla::page
