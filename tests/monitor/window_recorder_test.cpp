// What a rank reports of a window, from when its instructions ran.
#include "window_recorder.hpp"

#include <gtest/gtest.h>

#include "flotilla/base/text.hpp"
#include "flotilla/model/config.hpp"

namespace flotilla::monitor {
namespace {

/// Two stages of two replicas, a host each.
class Recorder : public ::testing::Test {
 protected:
  Recorder() {
    cluster::DeviceType type;
    type.name = "cpu";
    type.peak_fp32 = type.peak_bf16 = FlopsPerSecond{1e10};
    type.memory_bandwidth = BytesPerSecond{1e10};
    profile_.device_types = {type};
    for (int r = 0; r < 4; ++r) profile_.devices.push_back({Rank{r}, "cpu", text("n", r), "", 0, 1});
    cluster::Link link;
    link.level = cluster::LinkLevel::zone;
    link.pieces = {{{0}, Seconds{1e-4}, BytesPerSecond{1e8}}};
    profile_.links = {link};
    program_ = program::lower(plan::even_plan(model::built_in("gpt2-tiny"), 32, 8, Precision::fp32, 2, 2, 1, 2), {});
    recorder_.emplace(program_, profile_, std::vector<Rank>{Rank{0}, Rank{1}, Rank{2}, Rank{3}}, Rank{0});
    const auto& instructions = program_.classes[static_cast<std::size_t>(program_.ranks[0].rank_class)].instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      if (instructions[i].sends()) send_ = static_cast<int>(i);
      if (instructions[i].queue == program::Queue::compute && instructions[i].per_microbatch) compute_ = static_cast<int>(i);
      const auto* collective = instructions[i].as<program::Collective>();
      if (collective == nullptr || collective->kind != program::CollectiveKind::all_reduce) continue;
      const int group = program_.ranks[0].groups[static_cast<std::size_t>(collective->group)];
      if (program_.groups[static_cast<std::size_t>(group)].kind == program::Group::Kind::data) sum_ = static_cast<int>(i), group_ = group;
    }
  }

  cluster::Profile profile_;
  program::Program program_;
  std::optional<WindowRecorder> recorder_;
  int send_ = -1, compute_ = -1, sum_ = -1, group_ = -1;
};

train::InstructionSpan span(int instruction, int microbatch, double start, double end) {
  return {instruction, microbatch, Seconds{start}, Seconds{end}};
}

TEST_F(Recorder, WithoutAStepThereIsNothingToReport) {
  const auto window = recorder_->take();
  EXPECT_EQ(window.iteration, 0);
  EXPECT_EQ(window.peer, -1);
}

TEST_F(Recorder, ReportsMeansOverTheStepsOfTheWindow) {
  ASSERT_GE(compute_, 0);
  recorder_->add(std::vector{span(compute_, 0, 0, 0.2), span(compute_, 1, 0.3, 0.4)}, Seconds{1});
  recorder_->add(std::vector{span(compute_, 0, 0, 0.1)}, Seconds{3});
  EXPECT_EQ(recorder_->steps(), 2);
  EXPECT_EQ(recorder_->time(), Seconds{4});
  const auto window = recorder_->take();
  EXPECT_DOUBLE_EQ(window.iteration, 2);
  EXPECT_GE(window.busy, 0.2) << "and the seconds in which this process was kept from running";
  EXPECT_EQ(recorder_->steps(), 0) << "the next window begins";
  EXPECT_EQ(recorder_->time(), Seconds{0});
}

TEST_F(Recorder, SendsThatOverlapShareTheWire) {
  ASSERT_GE(send_, 0);
  recorder_->add(std::vector{span(send_, 0, 0.1, 0.5), span(send_, 1, 0.3, 0.6), span(send_, 0, 0.9, 1.0)}, Seconds{1});
  const auto window = recorder_->take();
  EXPECT_GE(window.peer, 0);
  EXPECT_DOUBLE_EQ(window.link, 0.6) << "0.1 to 0.6 and 0.9 to 1.0";
  EXPECT_GT(window.link_forecast, 0);
}

TEST_F(Recorder, CollectivesCountByGroup) {
  ASSERT_GE(sum_, 0);
  recorder_->add(std::vector{span(sum_, 0, 0.1, 0.4)}, Seconds{1});
  recorder_->add(std::vector{span(sum_, 0, 0.1, 0.2)}, Seconds{1});
  const auto window = recorder_->take();
  EXPECT_EQ(window.groups[0].group, group_);
  EXPECT_DOUBLE_EQ(window.groups[0].measured, 0.2);
  EXPECT_GT(window.groups[0].forecast, 0);
  EXPECT_EQ(window.groups[1].group, -1);
  EXPECT_EQ(recorder_->take().groups[0].group, -1) << "nothing is left of it";
}

}  // namespace
}  // namespace flotilla::monitor
