#include <algorithm>
#include <cmath>
#include <map>

#include "canvas.hpp"
#include "flotilla/page/document.hpp"

namespace flotilla::page {
namespace {

std::vector<double> ends_of(const Gantt& gantt) {
  std::vector<double> values;
  for (const auto& bar : gantt.bars)
    for (const double v : {bar.start, bar.end}) values.push_back(v);
  return values;
}

class GanttDrawing {
 public:
  GanttDrawing(const Gantt& gantt, double width) : gantt_{gantt}, x_{gantt.x, ends_of(gantt)}, canvas_{width, 0} {
    const bool phone = width < 500;
    const auto rows = static_cast<double>(gantt.rows.size());
    tall_ = std::clamp(420.0 / std::max(1.0, rows), 12.0, 28.0);
    double left = 0;
    for (const auto& row : gantt.rows) left = std::max(left, width_of(row));
    // On a phone names stand above their bars.
    above_ = phone ? 15 : 0;
    left = phone ? 4 : std::min(left + 10, width / 3.5);
    area_ = {left, 8, width - left - 14, rows * (tall_ + above_ + gap)};
    canvas_ = Canvas{width, area_.bottom() + 44};
  }

  Canvas draw() {
    draw_x_axis(canvas_, area_, x_);
    for (std::size_t r = 0; r < gantt_.rows.size(); ++r) draw_name(r);
    for (const auto& bar : joined()) draw(bar);
    return std::move(canvas_);
  }

 private:
  static constexpr double gap = 4;

  double top(std::size_t row) const { return area_.y + static_cast<double>(row) * (tall_ + above_ + gap) + above_; }
  double x(double value) const { return area_.x + x_.place(value) * area_.width; }

  void draw_name(std::size_t r) {
    if (above_ > 0) return canvas_.words({area_.x, top(r) - 4}, fitted(gantt_.rows[r], area_.width), Anchor::start, "soft");
    canvas_.words({area_.x - 8, top(r) + tall_ / 2 + 4}, fitted(gantt_.rows[r], area_.x - 8), Anchor::end);
  }

  /// Neighbours of one colour that are less than half a pixel wide become one bar: nobody could see them apart.
  std::vector<GanttBar> joined() const {
    std::map<std::size_t, std::vector<GanttBar>> rows;
    for (const auto& bar : gantt_.bars)
      if (bar.row < gantt_.rows.size() && x_.shows(bar.start) && x_.shows(bar.end)) rows[bar.row].push_back(bar);
    std::vector<GanttBar> out;
    for (auto& [row, bars] : rows) {
      std::ranges::stable_sort(bars, {}, &GanttBar::start);
      const auto first = out.size();
      for (auto& bar : bars) {
        const bool small = x(bar.end) - x(bar.start) < 0.5;
        if (small && out.size() > first && out.back().colour == bar.colour && x(bar.start) - x(out.back().end) < 0.5)
          out.back().end = std::max(out.back().end, bar.end);
        else
          out.push_back(std::move(bar));
      }
    }
    return out;
  }

  void draw(const GanttBar& bar) {
    const Area area{x(bar.start), top(bar.row), std::max(0.4, x(bar.end) - x(bar.start)), tall_};
    canvas_.box(area, (area.width > 3 ? "bar " : "") + surface(bar.colour), bar.detail, area.width > 6 ? 2 : 0);
    if (bar.label.empty() || width_of(bar.label) + 4 > area.width || tall_ < 12) return;
    canvas_.words({area.x + area.width / 2, area.y + tall_ / 2 + 4}, bar.label, Anchor::middle, ink_on(bar.colour));
  }

  const Gantt& gantt_;
  Scale x_;
  Canvas canvas_;
  double tall_ = 0, above_ = 0;
  Area area_;
};

Markup table_of(const Gantt& gantt) {
  const Scale x{gantt.x, ends_of(gantt)};
  std::vector<std::vector<std::string>> rows;
  const std::size_t every = gantt.bars.size() / most_table_rows + 1;
  for (std::size_t i = 0; i < gantt.bars.size(); i += every) {
    const auto& bar = gantt.bars[i];
    rows.push_back({bar.row < gantt.rows.size() ? gantt.rows[bar.row] : "", x.in_words(bar.start), x.in_words(bar.end), bar.detail});
  }
  return table({{""}, {"from", true}, {"to", true}, {"what"}}, rows);
}

}  // namespace

Markup figure(const Gantt& gantt) {
  return figure_of(
      gantt.caption, legend_of(gantt.legend),
      [&](double width) {
        return GanttDrawing{gantt, width}.draw();
      },
      table_of(gantt));
}

}  // namespace flotilla::page
