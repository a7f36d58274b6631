#include <algorithm>
#include <cmath>

#include "canvas.hpp"
#include "flotilla/page/document.hpp"

namespace flotilla::page {
namespace {

constexpr double line_height = 15;

class RowsOfBoxes {
 public:
  RowsOfBoxes(const BoxDrawing& drawing, double width) : drawing_{drawing}, canvas_{width, 0} {
    const bool phone = width < 500;
    double left = 0;
    std::size_t lines = 1;
    for (const auto& row : drawing.rows) {
      left = std::max({left, width_of(row.label), width_of(row.note)});
      for (const auto& box : row.boxes) lines = std::max(lines, box.lines.size());
    }
    above_ = phone ? 19 : 0;
    left_ = phone ? 2 : std::min(left + 12, width / 3.5);
    tall_ = std::max(36.0, 10 + line_height * static_cast<double>(lines));
    if (drawing.rows.size() > 12) tall_ = std::max(22.0, tall_ * 0.55);
    canvas_ = Canvas{width, static_cast<double>(drawing.rows.size()) * (tall_ + above_ + gap) + 2};
  }

  Canvas draw() {
    for (std::size_t r = 0; r < drawing_.rows.size(); ++r) draw(r);
    return std::move(canvas_);
  }

 private:
  static constexpr double gap = 12;

  void draw(std::size_t r) {
    const auto& row = drawing_.rows[r];
    const double top = static_cast<double>(r) * (tall_ + above_ + gap) + above_ + 1;
    if (above_ > 0) {
      canvas_.words({left_, top - 5}, fitted(text(row.label, ", ", row.note), canvas_.width() - left_), Anchor::start);
    } else {
      const bool two = tall_ > 30;
      canvas_.words({left_ - 10, top + tall_ / 2 + (two ? -3 : 4)}, fitted(two ? row.label : text(row.label, ", ", row.note), left_ - 10),
                    Anchor::end, two ? "name" : "");
      if (two) canvas_.words({left_ - 10, top + tall_ / 2 + 13}, fitted(row.note, left_ - 10), Anchor::end, "soft");
    }
    double sum = 0;
    for (const auto& box : row.boxes) sum += box.share;
    double x = left_;
    for (const auto& box : row.boxes) {
      const double width = sum > 0 ? box.share / sum * (canvas_.width() - left_ - 2) : 0;
      draw(box, row, {x, top, width, tall_});
      x += width;
    }
    if (r + 1 < drawing_.rows.size()) draw_arrow((left_ + canvas_.width()) / 2, top + tall_);
  }

  void draw(const DrawnBox& box, const BoxRow& row, const Area& area) {
    std::string all = row.label;
    for (const auto& line : box.lines) all += "\n" + line;
    canvas_.box(area, "box " + surface(box.colour), all, 5);
    const auto fit = std::min<std::size_t>(box.lines.size(), static_cast<std::size_t>((area.height - 6) / line_height));
    double y = area.y + (area.height - line_height * static_cast<double>(fit)) / 2 + 11;
    for (std::size_t i = 0; i < fit; ++i, y += line_height)
      canvas_.words({area.x + area.width / 2, y}, fitted(box.lines[i], area.width - 8), Anchor::middle,
                    text(ink_on(box.colour), i == 0 ? " name" : ""));
  }

  void draw_arrow(double x, double y) {
    const auto at = [](double a, double b) { return text(std::lround(a), ",", std::lround(b), " "); };
    canvas_.shape("M" + at(x, y + 1) + "L" + at(x, y + gap - 2) + "M" + at(x - 4, y + gap - 6) + "L" + at(x, y + gap - 2) + "L" +
                      at(x + 4, y + gap - 6),
                  "arrow");
  }

  const BoxDrawing& drawing_;
  Canvas canvas_;
  double left_ = 0, tall_ = 0, above_ = 0;
};

Markup table_of(const BoxDrawing& drawing) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& row : drawing.rows)
    for (const auto& box : row.boxes) {
      std::string all;
      for (const auto& line : box.lines) all += (all.empty() ? "" : ", ") + line;
      rows.push_back({row.label, row.note, all});
    }
  return table({{""}, {""}, {""}}, rows);
}

}  // namespace

Markup figure(const BoxDrawing& drawing) {
  return figure_of(
      drawing.caption, legend_of(drawing.legend),
      [&](double width) {
        return RowsOfBoxes{drawing, width}.draw();
      },
      table_of(drawing));
}

}  // namespace flotilla::page
