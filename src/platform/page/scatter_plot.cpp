#include <array>
#include <cmath>

#include "canvas.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/page/document.hpp"

namespace flotilla::page {
namespace {

constexpr std::size_t shapes = 4;

/// A circle, a square, a triangle or a diamond: with seven colours, 28 groups differ.
std::string path_of(std::size_t shape, Point at, double radius) {
  const auto move = [&](double x, double y) { return formatted("%.1f,", at.x + x * radius) + formatted("%.1f ", at.y + y * radius); };
  switch (shape % shapes) {
    case 0:
      return "M" + move(-1, 0) + text("a", formatted("%.1f", radius), ",", formatted("%.1f", radius), " 0 1,0 ") +
             formatted("%.1f,0 ", 2 * radius) + text("a", formatted("%.1f", radius), ",", formatted("%.1f", radius), " 0 1,0 ") +
             formatted("%.1f,0", -2 * radius);
    case 1: return "M" + move(-0.9, -0.9) + "L" + move(0.9, -0.9) + move(0.9, 0.9) + move(-0.9, 0.9) + "Z";
    case 2: return "M" + move(0, -1.1) + "L" + move(1.05, 0.85) + move(-1.05, 0.85) + "Z";
    default: return "M" + move(0, -1.25) + "L" + move(1.25, 0) + move(0, 1.25) + move(-1.25, 0) + "Z";
  }
}

std::size_t shape_of(std::size_t group) { return group / static_cast<std::size_t>(Colour::grey); }

std::vector<double> values_of(const ScatterPlot& plot, double Point::*member) {
  std::vector<double> values;
  for (const auto& dot : plot.dots)
    if (std::isfinite(dot.at.x) && std::isfinite(dot.at.y)) values.push_back(dot.at.*member);
  for (const auto& point : plot.front) values.push_back(point.*member);
  return values;
}

struct Scales {
  Scale x, y;
  explicit Scales(const ScatterPlot& plot) : x{plot.x, values_of(plot, &Point::x)}, y{plot.y, values_of(plot, &Point::y)} {
    if (plot.diagonal) Scale::join(x, y);
  }
};

class ScatterDrawing {
 public:
  ScatterDrawing(const ScatterPlot& plot, double width) : plot_{plot}, scales_{plot}, canvas_{width, height(plot, width)} {
    const double inner = height(plot, width) - 74;
    scales_.x.widen_to_ticks(x_ticks(width - 80));
    scales_.y.widen_to_ticks(y_ticks(inner));
    if (plot.diagonal) Scale::join(scales_.x, scales_.y);
    const double left = label_room(scales_.y, inner);
    area_ = {left, 30, (plot.diagonal ? std::min(width - left - 14, inner * 1.25) : width - left - 14), inner};
  }

  Canvas draw() {
    draw_axes(canvas_, area_, scales_.x, scales_.y);
    if (plot_.diagonal) canvas_.line({area_.x, area_.bottom()}, {area_.right(), area_.y}, "diagonal");
    draw_front();
    for (const auto& dot : plot_.dots)
      if (!dot.large) draw(dot);
    for (const auto& dot : plot_.dots)
      if (dot.large) draw(dot);
    return std::move(canvas_);
  }

 private:
  static double height(const ScatterPlot& plot, double width) { return width < 500 ? 300 : plot.diagonal ? 600 : 380; }
  Point at(const Point& p) const {
    return {area_.x + scales_.x.place(p.x) * area_.width, area_.bottom() - scales_.y.place(p.y) * area_.height};
  }

  void draw(const Dot& dot) {
    if (!scales_.x.shows(dot.at.x) || !scales_.y.shows(dot.at.y)) return;
    const Point place = at(dot.at);
    const double radius = dot.large ? 7 : canvas_.width() < 500 ? 3.5 : 4.5;
    canvas_.shape(path_of(shape_of(dot.group), place, radius), "dot " + surface(colour_of(dot.group)), dot.detail);
    if (dot.label.empty()) return;
    const bool left = place.x + radius + 4 + width_of(dot.label) > canvas_.width();
    canvas_.words({place.x + (left ? -radius - 4 : radius + 4), place.y - radius}, dot.label, left ? Anchor::end : Anchor::start,
                  dot.large ? "name" : "soft");
  }

  void draw_front() {
    std::vector<Point> steps;
    for (const auto& point : plot_.front) {
      const Point next = at(point);
      if (!steps.empty()) steps.push_back({next.x, steps.back().y});
      steps.push_back(next);
    }
    if (steps.size() > 1) canvas_.polyline(steps, "line faint " + stroke(Colour::grey));
  }

  const ScatterPlot& plot_;
  Scales scales_;
  Canvas canvas_;
  Area area_;
};

Markup legend_of(const ScatterPlot& plot) {
  if (plot.groups.size() < 2) return {};
  Markup out;
  for (std::size_t g = 0; g < plot.groups.size(); ++g) {
    const auto mark = element("path", {{"d", path_of(shape_of(g), {5, 5}, 4)}, {"class", surface(colour_of(g))}});
    out += legend_entry(mark, plot.groups[g]);
  }
  return legend_around(out);
}

Markup table_of(const ScatterPlot& plot) {
  const Scales scales{plot};
  std::vector<std::vector<std::string>> rows;
  for (const auto& dot : plot.dots)
    rows.push_back({dot.group < plot.groups.size() ? plot.groups[dot.group] : "", scales.x.in_words(dot.at.x), scales.y.in_words(dot.at.y),
                    dot.detail});
  return table({{""}, {plot.x.label, true}, {plot.y.label, true}, {"point"}}, rows);
}

}  // namespace

Markup figure(const ScatterPlot& plot) {
  return figure_of(
      plot.caption, legend_of(plot),
      [&](double width) {
        return ScatterDrawing{plot, width}.draw();
      },
      table_of(plot));
}

}  // namespace flotilla::page
