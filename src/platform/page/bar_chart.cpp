#include <algorithm>
#include <cmath>
#include <numeric>

#include "canvas.hpp"
#include "flotilla/page/document.hpp"

namespace flotilla::page {
namespace {

double sum_of(const BarRow& row) { return std::accumulate(row.parts.begin(), row.parts.end(), 0.0); }

std::vector<double> ends_of(const BarChart& chart) {
  std::vector<double> values{0};
  for (const auto& row : chart.rows) {
    values.push_back(sum_of(row));
    if (row.limit) values.push_back(*row.limit);
  }
  return values;
}

class BarDrawing {
 public:
  BarDrawing(const BarChart& chart, double width) : chart_{chart}, x_{chart.x, ends_of(chart)}, canvas_{width, 0} {
    const bool phone = width < 500;
    const auto rows = static_cast<double>(chart.rows.size());
    tall_ = std::clamp(360.0 / std::max(1.0, rows), 12.0, 26.0);
    double left = 0, right = 0;
    for (const auto& row : chart.rows) {
      left = std::max(left, width_of(row.label));
      right = std::max(right, width_of(x_.in_words(sum_of(row))) + 12);
    }
    above_ = phone ? 15 : 0;
    left = phone ? 4 : std::min(left + 10, width / 3.5);
    area_ = {left, 8, width - left - right, rows * (tall_ + above_ + gap)};
    canvas_ = Canvas{width, area_.bottom() + 44};
  }

  Canvas draw() {
    draw_x_axis(canvas_, area_, x_);
    for (std::size_t r = 0; r < chart_.rows.size(); ++r) draw(r);
    return std::move(canvas_);
  }

 private:
  static constexpr double gap = 5;

  void draw(std::size_t r) {
    const auto& row = chart_.rows[r];
    const double top = area_.y + static_cast<double>(r) * (tall_ + above_ + gap) + above_;
    if (above_ > 0)
      canvas_.words({area_.x, top - 4}, fitted(row.label, area_.width), Anchor::start, "soft");
    else
      canvas_.words({area_.x - 8, top + tall_ / 2 + 4}, fitted(row.label, area_.x - 8), Anchor::end);
    double from = 0;
    for (std::size_t p = 0; p < row.parts.size() && p < chart_.parts.size(); ++p) {
      if (!(row.parts[p] > 0)) continue;
      const Area area{x(from), top, x(from + row.parts[p]) - x(from), tall_};
      canvas_.box(area, (area.width > 2 ? "bar " : "") + surface(chart_.parts[p].colour),
                  text(row.label, ": ", chart_.parts[p].name, " ", x_.in_words(row.parts[p])));
      from += row.parts[p];
    }
    if (row.limit) canvas_.line({x(*row.limit), top - 3}, {x(*row.limit), top + tall_ + 3}, "limit");
    const auto sum = x_.in_words(from);
    const bool before_limit = !row.limit || x(from) + width_of(sum) + 14 < x(*row.limit);
    canvas_.words({(before_limit ? x(from) : std::max(x(from), x(*row.limit))) + 7, top + tall_ / 2 + 4}, sum, Anchor::start, "soft");
  }

  double x(double value) const { return area_.x + x_.place(value) * area_.width; }

  const BarChart& chart_;
  Scale x_;
  Canvas canvas_;
  double tall_ = 0, above_ = 0;
  Area area_;
};

Markup table_of(const BarChart& chart) {
  const Scale x{chart.x, ends_of(chart)};
  std::vector<Column> columns{{""}};
  for (const auto& part : chart.parts) columns.push_back({part.name, true});
  columns.push_back({"sum", true});
  if (!chart.limit_is.empty()) columns.push_back({chart.limit_is, true});
  std::vector<std::vector<std::string>> rows;
  for (const auto& row : chart.rows) {
    rows.push_back({row.label});
    for (const double part : row.parts) rows.back().push_back(x.in_words(part));
    rows.back().push_back(x.in_words(sum_of(row)));
    if (!chart.limit_is.empty()) rows.back().push_back(row.limit ? x.in_words(*row.limit) : "-");
  }
  return table(columns, rows);
}

}  // namespace

Markup figure(const BarChart& chart) {
  return figure_of(
      chart.caption, legend_of(chart.parts),
      [&](double width) {
        return BarDrawing{chart, width}.draw();
      },
      table_of(chart));
}

}  // namespace flotilla::page
