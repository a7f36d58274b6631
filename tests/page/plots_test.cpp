#include "flotilla/page/plots.hpp"

#include <limits>

#include "flotilla/page/document.hpp"
#include "support/well_formed.hpp"

namespace flotilla::page {
namespace {

const std::string foreign = "<script>alert(\"1\")</script>&\x1b";
const double nan = std::numeric_limits<double>::quiet_NaN();

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

/// A figure has a wide and a narrow drawing, both with a text alternative, and a table.
std::string checked(const Markup& figure) {
  EXPECT_EQ(tests::why_not_well_formed(document("figure", figure)), "");
  const auto text = figure.text();
  EXPECT_EQ(count(text, "role=\"img\""), 2u);
  EXPECT_EQ(count(text, "aria-label=\""), 2u);
  EXPECT_EQ(count(text, "<desc>"), 2u);
  EXPECT_GE(count(text, "<table>"), 1u);
  EXPECT_EQ(text.find("<script"), std::string::npos);
  EXPECT_EQ(text.find("nan"), std::string::npos);
  EXPECT_EQ(text.find("inf"), std::string::npos);
  return text;
}

TEST(LinePlot, LeavesGapsWhereThereIsNoValue) {
  LinePlot plot{{"Loss", "What it is."}, {.label = "iteration"}, {.label = "loss", .logarithmic = true}, {}, {}};
  plot.lines = {{"training", {{1, 4}, {2, nan}, {3, 3}, {4, 2}}, Colour::blue, Line::Look::plain}};
  plot.events = {{2, "2", "incarnation 2", Colour::grey}};
  const auto text = checked(figure(plot));
  EXPECT_EQ(count(text, "<polyline"), 2u);         // from 3 to 4, twice drawn
  EXPECT_EQ(count(text, "training: 4 at 1"), 2u);  // a point alone is a dot
  EXPECT_EQ(count(text, "<td>incarnation 2</td>"), 1u);
}

TEST(LinePlot, AMillionPointsAreNoMillionMarks) {
  LinePlot plot{{"Loss", ""}, {}, {}, {{"loss", {}, Colour::blue, Line::Look::plain}}, {}};
  for (int i = 0; i < 1'000'000; ++i) plot.lines[0].points.push_back({static_cast<double>(i), i == 500'000 ? 9.0 : i % 2 * 1.0});
  const auto text = checked(figure(plot));
  EXPECT_LT(text.size(), 200'000u);
  EXPECT_GE(count(text, "9"), 1u);
}

TEST(LinePlot, WithoutPointsIsAFrame) { checked(figure(LinePlot{{"Loss", ""}, {}, {}, {}, {}})); }

TEST(ScatterPlot, EachPointSaysWhatItIs) {
  ScatterPlot plot{{"Time against cost", ""}, {.quantity = Quantity::seconds}, {.unit = "$"}, {"this plan", "next best"}, {}, {}, false};
  plot.dots = {{{1, 2}, 0, "this plan", "1 stage", true}, {{2, 1}, 1, "", foreign}, {{nan, 1}, 1, "", "none"}};
  plot.front = {{1, 2}, {2, 1}};
  const auto text = checked(figure(plot));
  EXPECT_EQ(count(text, "<title>1 stage</title>"), 2u);
  EXPECT_EQ(count(text, "<title>none</title>"), 0u);
  EXPECT_EQ(count(text, "<td class=\"number\">$2</td>"), 1u);
}

TEST(HeatMap, ShowsWhatWasNotMeasured) {
  const HeatMap map{{"Bandwidth", ""},
                    "from",
                    "to",
                    {"n1", "n2"},
                    {"n1", "n2"},
                    {{std::nullopt, 10.0}, {20.0, std::nullopt}},
                    {.label = "bandwidth", .unit = "GB/s"}};
  const auto text = checked(figure(map));
  EXPECT_EQ(count(text, "n1 to n2: 10 GB/s"), 2u);
  EXPECT_EQ(count(text, "class=\"none\""), 4u);
}

TEST(HeatMap, OfManyNodesIsNoWiderThanThePage) {
  HeatMap map{{"Bandwidth", ""}, "from", "to", {}, {}, {}, {.label = "bandwidth"}};
  for (int n = 0; n < 64; ++n) {
    map.rows.push_back("node-" + std::to_string(n));
    map.columns.push_back(map.rows.back());
    map.values.emplace_back(64, 1.0 + n);
  }
  checked(figure(map));
}

TEST(HeatMap, WhereLittleWasMeasuredIsSmall) {
  HeatMap map{{"Bandwidth", ""}, "from", "to", {}, {}, {}, {.label = "bandwidth"}};
  for (int n = 0; n < 96; ++n) {
    map.rows.push_back("node-" + std::to_string(n));
    map.columns.push_back(map.rows.back());
    map.values.emplace_back(96);
    map.values.back()[static_cast<std::size_t>((n + 1) % 96)] = 1.0 + n;
  }
  const auto text = checked(figure(map));
  EXPECT_EQ(count(text, "class=\"none\""), 2u);
  EXPECT_EQ(count(text, "<td>node-3</td><td>node-4</td>"), 1u);
  EXPECT_LT(text.size(), 150'000u);
}

TEST(Gantt, ManySmallBarsBecomeFew) {
  Gantt gantt{{"Timeline", ""}, {.quantity = Quantity::seconds}, {"rank 0"}, {}, {{Colour::blue, "forward"}}};
  for (int i = 0; i < 100'000; ++i) gantt.bars.push_back({0, i * 1e-5, (i + 1) * 1e-5, Colour::blue, "", "x"});
  EXPECT_LT(checked(figure(gantt)).size(), 500'000u);
}

TEST(BarChart, HasALimitAndASum) {
  const BarChart chart{{"Memory", ""},
                       {.quantity = Quantity::bytes, .from_zero = true},
                       {{Colour::blue, "weights"}, {Colour::green, "gradients"}},
                       {{"stage 0", {1024.0, 1024.0}, 4096.0}},
                       "device has"};
  const auto text = checked(figure(chart));
  EXPECT_EQ(count(text, "class=\"limit\""), 2u);
  EXPECT_EQ(count(text, "<td class=\"number\">2.0 KiB</td>") + count(text, "<td class=\"number\">2 KiB</td>") +
                count(text, "<td class=\"number\">2.00 KiB</td>"),
            1u);
}

TEST(BoxDrawing, NamesStayText) {
  checked(figure(BoxDrawing{{foreign, foreign},
                            {{foreign, foreign, {{1, Colour::blue, {foreign, foreign}}, {2, Colour::orange, {}}}}},
                            {{Colour::blue, foreign}}}));
}

}  // namespace
}  // namespace flotilla::page
