#pragma once
#include <optional>
#include <string>
#include <vector>

#include "flotilla/page/colour.hpp"
#include "flotilla/page/markup.hpp"

/// Plots as SVG, each drawn twice: for a wide page and for a phone, of which a browser shows one. Each has a text alternative, and a table
/// of its values behind it. What a mark or a bar stands for is its tooltip. Values that are not finite are left out.
namespace flotilla::page {

enum class Quantity { number, seconds, bytes };

struct PlotAxis {
  std::string label{};
  Quantity quantity = Quantity::number;
  bool logarithmic = false;  ///< where all values are positive; else it is linear
  bool from_zero = false;    ///< shows 0, too; of linear axes
  std::string unit{};        ///< of numbers: "tokens/s"; "$" stands before them
};

struct Point {
  double x = 0, y = 0;
};

/// What all plots have.
struct Caption {
  std::string title{};        ///< above it
  std::string description{};  ///< what it shows, in a sentence: for readers who do not see it
};

/// One line of a plot, named at its end.
struct Line {
  enum class Look { plain, faint, marked, broken };
  std::string name{};  ///< empty: it has none
  std::vector<Point> points{};
  Colour colour = Colour::blue;
  Look look = Look::plain;
};
/// Something that happened at an x: a vertical line.
struct PlotEvent {
  double x = 0;
  std::string label{};   ///< left out where there is no room
  std::string detail{};  ///< its tooltip, and its row in the table
  Colour colour = Colour::grey;
};
struct LinePlot {
  Caption caption{};
  PlotAxis x{}, y{};
  std::vector<Line> lines{};
  std::vector<PlotEvent> events{};
};

struct Dot {
  Point at{};
  std::size_t group = 0;
  std::string label{};   ///< beside it; empty: none
  std::string detail{};  ///< its tooltip
  bool large = false;
};
/// Points of several groups, each with a colour and a shape of its own.
struct ScatterPlot {
  Caption caption{};
  PlotAxis x{}, y{};
  std::vector<std::string> groups{};
  std::vector<Dot> dots{};
  std::vector<Point> front{};  ///< joined by steps
  bool diagonal = false;       ///< where y = x; both axes then show the same range
};

/// A matrix of values, such as the bandwidth between pairs.
struct HeatMap {
  Caption caption{};
  std::string rows_are{}, columns_are{};  ///< "from", "to"
  std::vector<std::string> rows{}, columns{};
  std::vector<std::vector<std::optional<double>>> values{};  ///< by row, then column; absent: not measured
  PlotAxis value{};                                          ///< its label names what a colour stands for
};

/// What happens when, on several rows.
struct GanttBar {
  std::size_t row = 0;
  double start = 0, end = 0;
  Colour colour = Colour::blue;
  std::string label{};   ///< inside, where there is room
  std::string detail{};  ///< its tooltip
};
struct LegendEntry {
  Colour colour = Colour::blue;
  std::string name{};
};
struct Gantt {
  Caption caption{};
  PlotAxis x{};
  std::vector<std::string> rows{};
  std::vector<GanttBar> bars{};
  std::vector<LegendEntry> legend{};
};

/// Rows of parts that add up, each with a limit that it should stay below.
struct BarRow {
  std::string label{};
  std::vector<double> parts{};  ///< as BarChart::parts
  std::optional<double> limit{};
};
struct BarChart {
  Caption caption{};
  PlotAxis x{};
  std::vector<LegendEntry> parts{};
  std::vector<BarRow> rows{};
  std::string limit_is{};  ///< "memory of the device"
};

/// Boxes side by side that share a whole, row below row, each row handing on to the next: a plan's stages and their replicas.
struct DrawnBox {
  double share = 1;  ///< of the row's width
  Colour colour = Colour::blue;
  std::vector<std::string> lines{};  ///< in it, as many as fit; the rest is its tooltip's
};
struct BoxRow {
  std::string label{}, note{};
  std::vector<DrawnBox> boxes{};
};
struct BoxDrawing {
  Caption caption{};
  std::vector<BoxRow> rows{};
  std::vector<LegendEntry> legend{};
};

/// A figure with its title, the two drawings and the table.
Markup figure(const LinePlot&);
Markup figure(const ScatterPlot&);
Markup figure(const HeatMap&);
Markup figure(const Gantt&);
Markup figure(const BarChart&);
Markup figure(const BoxDrawing&);

}  // namespace flotilla::page
