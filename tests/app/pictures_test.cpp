// Pictures of a terminal.
#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "app/common/plan_drawing.hpp"
#include "app/common/sparkline.hpp"

namespace flotilla::app {
namespace {

std::size_t characters(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

TEST(Sparkline, FollowsTheValues) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(sparkline(std::vector<double>{8, 6, 4, 2, 1}, 44), "█▆▄▂▁");
  EXPECT_EQ(sparkline(std::vector<double>{4, nan, 1}, 44), "█ ▁");
  EXPECT_EQ(sparkline(std::vector<double>{4, 4}, 44), "▁▁");
  EXPECT_EQ(sparkline(std::vector<double>{4, nan}, 44), "");
  EXPECT_EQ(sparkline(std::vector<double>{}, 44), "");
}

TEST(Sparkline, IsAsWideAsAsked) {
  std::vector<double> values;
  for (int i = 0; i < 1001; ++i) values.push_back(1.0 / (1 + i));
  EXPECT_EQ(characters(sparkline(values, 44)), 44u);
}

plan::Plan plan_of(int stages, const std::string& type) {
  plan::Plan plan;
  plan.model.blocks = 2 * stages;
  plan.global_batch = 16;
  for (int s = 0; s < stages; ++s)
    plan.stages.push_back({2 * s, 2 * s + 2, plan::Recompute::none, {{type, "", 1, {}, 1, 12}, {"V100-16", "", 1, {}, 1, 4}}});
  return plan;
}

TEST(PlanBoxes, AreOfOneWidthAndShowEachType) {
  std::istringstream lines{plan_boxes(plan_of(3, "A100-40"), 80)};
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_EQ(characters(line), 80u) << line;
  EXPECT_EQ(count, 4);  // three stages that are alike share a row
  const auto text = plan_boxes(plan_of(3, "A100-40"), 80);
  for (const char* part : {"stages 0-2", "layers 0-5", "1 x A100-40", "75 %", "1 x V100-16", "25 %"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(PlanBoxes, NamesStayInTheirBoxes) {
  std::istringstream lines{plan_boxes(plan_of(1, std::string(200, 'x') + "\x1b[31m"), 80)};
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(characters(line), 80u) << line;
    EXPECT_EQ(line.find('\x1b'), std::string::npos);
  }
}

TEST(PlanBoxes, OfMoreTypesThanFitAreLeftToTheTable) {
  auto plan = plan_of(1, "A100-40");
  for (int i = 0; i < 8; ++i) plan.stages[0].replicas.push_back({"type" + std::to_string(i), "", 1, {}, 1, 1});
  EXPECT_EQ(plan_boxes(plan, 80), "");
}

}  // namespace
}  // namespace flotilla::app
