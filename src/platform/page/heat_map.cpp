#include <algorithm>
#include <cmath>

#include "canvas.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/page/document.hpp"

namespace flotilla::page {
namespace {

constexpr int shades = 8;             // style.cpp: classes h0 to h7
constexpr std::size_t few_rows = 16;  // each of which has its label, however many columns there are
constexpr double label_height = 16;

std::vector<double> values_of(const HeatMap& map) {
  std::vector<double> values;
  for (const auto& row : map.values)
    for (const auto& value : row)
      if (value && std::isfinite(*value)) values.push_back(*value);
  return values;
}

double label_width(const std::vector<std::string>& labels, double most) {
  double width = 0;
  for (const auto& label : labels) width = std::max(width, width_of(label));
  return std::min(width, most);
}

class HeatDrawing {
 public:
  HeatDrawing(const HeatMap& map, double width)
      : map_{map},
        scale_{map.value, values_of(map)},
        left_{std::max(label_width(map.rows, width / 3), width_of(map.rows_are + "  ")) + 10},
        canvas_{width, 0} {
    const auto columns = static_cast<double>(std::max<std::size_t>(1, map.columns.size()));
    side_ = std::min(56.0, (width - left_ - 4) / columns);
    tall_ = std::max(std::min(side_, std::max(24.0, side_ * 0.7)), map.rows.size() <= few_rows ? label_height : 0.0);
    canvas_ = Canvas{width, top + tall_ * static_cast<double>(map.rows.size()) + bottom};
  }

  Canvas draw() {
    canvas_.words({left_, 14}, map_.columns_are.empty() ? "" : map_.columns_are + " →", Anchor::start, "soft");
    canvas_.words({4, top - 8}, map_.rows_are.empty() ? "" : map_.rows_are + " ↓", Anchor::start, "soft");
    draw_labels();
    if (one_ground())
      canvas_.box({left_, top, side_ * static_cast<double>(map_.columns.size()), tall_ * static_cast<double>(map_.rows.size())}, "none");
    for (std::size_t r = 0; r < map_.rows.size(); ++r)
      for (std::size_t c = 0; c < map_.columns.size(); ++c) draw(r, c);
    draw_key();
    return std::move(canvas_);
  }

 private:
  static constexpr double top = 44, bottom = 56;

  /// Cells that nobody could point at have no boxes of their own where nothing was measured.
  bool one_ground() const { return side_ < 16; }

  Area cell(std::size_t r, std::size_t c) const {
    return {left_ + side_ * static_cast<double>(c), top + tall_ * static_cast<double>(r), side_, tall_};
  }

  /// As many as stand side by side without touching.
  void draw_labels() {
    double free = 0;
    for (std::size_t c = 0; c < map_.columns.size(); ++c) {
      const auto area = cell(0, c);
      const double middle = area.x + area.width / 2;
      const auto label = map_.columns[c];
      if (middle - width_of(label) / 2 < free) continue;
      canvas_.words({middle, top - 8}, label, Anchor::middle);
      free = middle + width_of(label) / 2 + 8;
    }
    free = 0;
    for (std::size_t r = 0; r < map_.rows.size(); ++r) {
      const auto area = cell(r, 0);
      const double middle = area.y + area.height / 2;
      if (middle < free) continue;
      canvas_.words({left_ - 8, middle + 4}, fitted(map_.rows[r], left_ - 8), Anchor::end);
      free = middle + 14;
    }
  }

  std::optional<double> value(std::size_t r, std::size_t c) const {
    if (r >= map_.values.size() || c >= map_.values[r].size()) return std::nullopt;
    const auto& found = map_.values[r][c];
    return found && std::isfinite(*found) ? found : std::nullopt;
  }

  int shade(double v) const { return std::min(shades - 1, static_cast<int>(scale_.place(v) * shades)); }

  void draw(std::size_t r, std::size_t c) {
    const auto area = cell(r, c);
    const auto known = value(r, c);
    if (!known && one_ground()) return;
    if (!known) return canvas_.box(area, "none", r == c ? "" : text(map_.rows[r], " to ", map_.columns[c], ": not measured"));
    const int dark = shade(*known);
    canvas_.box(area, text("bar h", dark), text(map_.rows[r], " to ", map_.columns[c], ": ", scale_.in_words(*known)));
    const auto figure = formatted("%.3g", *known / scale_.unit());
    if (width_of(figure) + 6 < area.width && area.height > 15)
      canvas_.words({area.x + area.width / 2, area.y + area.height / 2 + 4}, figure, Anchor::middle, dark < 4 ? "on-dark" : "on");
  }

  void draw_key() {
    const double y = top + tall_ * static_cast<double>(map_.rows.size()) + 16, width = 22;
    for (int shade = 0; shade < shades; ++shade) canvas_.box({left_ + width * shade, y, width, 10}, text("bar h", shade));
    canvas_.words({left_, y + 26}, formatted("%.3g", scale_.low() / scale_.unit()), Anchor::start, "soft");
    canvas_.words({left_ + width * shades, y + 26}, formatted("%.3g", scale_.high() / scale_.unit()), Anchor::end, "soft");
    canvas_.words({left_ + width * shades + 12, y + 9}, scale_.title(), Anchor::start, "soft");
  }

  const HeatMap& map_;
  Scale scale_;
  double left_, side_ = 0, tall_ = 0;
  Canvas canvas_;
};

/// What is known, cell by cell.
Markup list_of(const HeatMap& map, const Scale& scale) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t r = 0; r < map.rows.size(); ++r)
    for (std::size_t c = 0; c < map.columns.size() && rows.size() < most_table_rows; ++c)
      if (const auto& value = map.values.at(r).at(c)) rows.push_back({map.rows[r], map.columns[c], scale.in_words(*value)});
  return table({{map.rows_are}, {map.columns_are}, {map.value.label, true}}, rows);
}

Markup table_of(const HeatMap& map) {
  const Scale scale{map.value, values_of(map)};
  if (map.rows.size() * map.columns.size() > most_table_rows) return list_of(map, scale);
  std::vector<Column> columns{{map.rows_are}};
  for (const auto& column : map.columns) columns.push_back({column, true});
  std::vector<std::vector<std::string>> rows;
  for (std::size_t r = 0; r < map.rows.size(); ++r) {
    rows.push_back({map.rows[r]});
    for (const auto& value : map.values.at(r)) rows.back().push_back(value ? scale.in_words(*value) : "-");
  }
  return table(columns, rows);
}

}  // namespace

Markup figure(const HeatMap& map) {
  return figure_of(
      map.caption, {},
      [&](double width) {
        return HeatDrawing{map, width}.draw();
      },
      table_of(map));
}

}  // namespace flotilla::page
