#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "canvas.hpp"
#include "flotilla/page/document.hpp"

namespace flotilla::page {
namespace {

std::vector<double> values_of(const LinePlot& plot, double Point::*member) {
  std::vector<double> values;
  for (const auto& line : plot.lines)
    for (const auto& point : line.points)
      if (std::isfinite(point.x) && std::isfinite(point.y)) values.push_back(point.*member);
  return values;
}

std::string classes_of(const Line& line) {
  const std::string base = "line " + stroke(line.colour);
  return line.look == Line::Look::faint ? base + " faint" : line.look == Line::Look::broken ? base + " broken" : base;
}

/// Of the points within a pixel column the first, the lowest, the highest and the last: they look the same as all.
std::vector<Point> thinned(const std::vector<Point>& points) {
  std::vector<Point> out;
  for (std::size_t first = 0, end = 0; first < points.size(); first = end) {
    while (end < points.size() && std::floor(points[end].x) == std::floor(points[first].x)) ++end;
    if (end - first <= 4) {
      out.insert(out.end(), points.begin() + static_cast<std::ptrdiff_t>(first), points.begin() + static_cast<std::ptrdiff_t>(end));
      continue;
    }
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(first), stop = points.begin() + static_cast<std::ptrdiff_t>(end);
    const auto [low, high] = std::minmax_element(begin, stop, [](const Point& a, const Point& b) { return a.y < b.y; });
    for (const auto& point : {*begin, low < high ? *low : *high, low < high ? *high : *low, *(stop - 1)}) out.push_back(point);
  }
  return out;
}

/// A plot while it is drawn at one width.
class LineDrawing {
 public:
  LineDrawing(const LinePlot& plot, double width)
      : plot_{plot},
        x_{plot.x, values_of(plot, &Point::x)},
        y_{plot.y, values_of(plot, &Point::y)},
        canvas_{width, width < 500 ? 250.0 : 330.0} {
    y_.widen_to_ticks(y_ticks(canvas_height() - 84));
    const double left = label_room(y_, canvas_height() - 84);
    area_ = {left, 40, width - left - name_room(width), canvas_height() - 84};
  }

  Canvas draw() {
    draw_axes(canvas_, area_, x_, y_);
    free_from_ = width_of(y_.title()) + 10;
    for (const auto& event : plot_.events) draw(event);
    for (const auto& line : plot_.lines) draw(line);
    draw_names();
    return std::move(canvas_);
  }

 private:
  double canvas_height() const { return canvas_.width() < 500 ? 250 : 330; }
  double name_room(double width) const {
    double room = 12;
    for (const auto& line : plot_.lines) room = std::max(room, width_of(line.name) + 16);
    return std::min(room, width / 4);
  }
  Point at(const Point& point) const {
    return {area_.x + x_.place(point.x) * area_.width, area_.bottom() - y_.place(point.y) * area_.height};
  }
  bool shows(const Point& point) const { return x_.shows(point.x) && y_.shows(point.y); }

  void draw(const PlotEvent& event) {
    if (!x_.shows(event.x)) return;
    const double x = area_.x + x_.place(event.x) * area_.width;
    const bool crowded = plot_.events.size() > 12;
    canvas_.line({x, area_.y - 4}, {x, area_.bottom()}, (crowded ? "event faint " : "event ") + stroke(event.colour));
    canvas_.box({x - 4, area_.y - 4, 8, area_.height + 4}, "hit", event.detail);
    const double width = width_of(event.label);
    if (event.label.empty() || x - width / 2 < free_from_ || x + width / 2 > canvas_.width()) return;
    canvas_.words({x, area_.y - 8}, event.label, Anchor::middle, "soft");
    free_from_ = x + width / 2 + 6;
  }

  void draw(const Line& line) {
    std::vector<Point> run;
    const auto flush = [&] {
      if (run.size() == 1 || line.look == Line::Look::marked)
        for (const auto& point : run)
          canvas_.box({point.x - 3, point.y - 3, 6, 6}, "dot " + surface(line.colour), tooltip_at(line, point), 3);
      if (run.size() > 1) canvas_.polyline(thinned(run), classes_of(line));
      run.clear();
    };
    for (const auto& point : line.points) {
      if (!shows(point)) {
        flush();
        continue;
      }
      run.push_back(at(point));
      values_[run.back().x] = point;
    }
    flush();
    values_.clear();
  }

  std::string tooltip_at(const Line& line, const Point& drawn) const {
    const auto found = values_.find(drawn.x);
    if (found == values_.end()) return line.name;
    return text(line.name, line.name.empty() ? "" : ": ", y_.in_words(found->second.y), " at ", x_.in_words(found->second.x));
  }

  /// At the lines' ends, one below the other where they would overlap.
  void draw_names() {
    std::vector<std::pair<double, const Line*>> names;
    for (const auto& line : plot_.lines) {
      const auto last = std::find_if(line.points.rbegin(), line.points.rend(), [&](const Point& p) { return shows(p); });
      if (!line.name.empty() && last != line.points.rend()) names.emplace_back(at(*last).y + 4, &line);
    }
    std::ranges::stable_sort(names, {}, &std::pair<double, const Line*>::first);
    double free = -std::numeric_limits<double>::infinity();
    for (const auto& [wanted, line] : names) {
      const double y = std::max(wanted, free);
      free = y + 15;
      canvas_.box({area_.right() + 6, y - 9, 3, 11}, surface(line->colour));
      canvas_.words({area_.right() + 12, y}, fitted(line->name, canvas_.width() - area_.right() - 12), Anchor::start);
    }
  }

  const LinePlot& plot_;
  Scale x_, y_;
  Canvas canvas_;
  Area area_;
  double free_from_ = 0;            ///< where a label of an event may begin
  std::map<double, Point> values_;  ///< of the line in hand, by where they are drawn
};

/// Every n-th value, and always the last one.
void add_rows(std::vector<std::vector<std::string>>& rows, const Line& line, const Scale& x, const Scale& y) {
  const std::size_t every = line.points.size() / most_table_rows + 1;
  for (std::size_t i = 0; i < line.points.size(); ++i)
    if (i % every == 0 || i + 1 == line.points.size())
      rows.push_back({line.name, x.in_words(line.points[i].x), y.in_words(line.points[i].y)});
}

Markup table_of(const LinePlot& plot) {
  const Scale x{plot.x, values_of(plot, &Point::x)}, y{plot.y, values_of(plot, &Point::y)};
  std::vector<std::vector<std::string>> rows, events;
  for (const auto& line : plot.lines)
    if (!line.name.empty()) add_rows(rows, line, x, y);
  for (const auto& event : plot.events) events.push_back({x.in_words(event.x), event.detail.empty() ? event.label : event.detail});
  auto out = table({{"line"}, {plot.x.label, true}, {plot.y.label, true}}, rows);
  if (!events.empty()) out += table({{plot.x.label, true}, {"event"}}, events);
  return out;
}

}  // namespace

Markup figure(const LinePlot& plot) {
  return figure_of(
      plot.caption, {},
      [&](double width) {
        return LineDrawing{plot, width}.draw();
      },
      table_of(plot));
}

}  // namespace flotilla::page
