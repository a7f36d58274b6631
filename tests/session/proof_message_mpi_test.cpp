// When groups fail their proof, the message says which group it was and what was wrong, and of every rank that it names the host, the
// device and the line of the plan that puts it there. From the groups up, as a run forms them.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "comm/faulty_group.hpp"
#include "comm/world_fixture.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "flotilla/session/active_plan.hpp"
#include "known_answer.hpp"

namespace flotilla::session {
namespace {

/// Where a rank is missed: longer than a busy machine keeps another from running.
constexpr Seconds soon{4};

/// A message that names so many ranks and devices is cut in the middle.
std::string as_printed(const std::string& message) { return message_line(message, longest_message); }

/// Three replicas on devices of two types.
class ProofMessage : public comm::WorldTest {
 protected:
  void SetUp() override {
    file_ = std::filesystem::temp_directory_path() / text("flotilla-proof-", me, "-", ::getpid(), ".txt");
    std::ofstream{file_} << std::string(20000, 'a');
    config_.architecture = model::built_in("gpt2-tiny");
    config_.training.length = 16;
    config_.training.global_batch = 3;
    config_.training.precision = Precision::fp32;
    config_.data.train = {file_.string()};
    config_.data.format = data::Format::text;
    config_.comm.deadline = comm::patience;
    chosen_.plan = plan::even_plan(config_.architecture, 16, 3, Precision::fp32, 3, 1, 1, 1);
    for (int r = 0; r < size; ++r)
      chosen_.profile.devices.push_back({Rank{r}, r == 2 ? "cpu:Old:1t" : "cpu:New:1t", world.host(Rank{r}), "", r, 1});
    data_.emplace(open_data(config_, {{.training = {file_}, .validation = {}}}));
    place_.emplace(RunContext{world, config_, *data_, {}, {}, 1});
  }
  void TearDown() override {
    std::filesystem::remove(file_);
    comm::WorldTest::TearDown();
  }

  std::string failure_to_take_up(Lowered lowered) {
    try {
      activate(*place_, chosen_, std::move(lowered));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::communication);
      return error.what();
    }
    return "";
  }
  std::string name(int rank) const { return world.name(Rank{rank}); }
  /// Of a group of all.
  std::string everybody() const { return text("data-parallel group of ", name(0), ", ", name(1), ", ", name(2)); }
  /// What stands at the end.
  std::string lines() const {
    const auto line = [&](int rank, const char* type) {
      return text(name(rank), ": cpu:", type, ":1t, the plan's stages[0].replicas[", rank, "].devices[0]");
    };
    return text(" (", line(0, "New"), ", ", line(1, "New"), ", ", line(2, "Old"), ")");
  }

  std::filesystem::path file_;
  RunConfig config_;
  ChosenPlan chosen_;
  std::optional<TrainingData> data_;
  std::optional<RunContext> place_;
};

TEST_F(ProofMessage, OfARankThatTakesAnotherOrderOfMembers) {
  auto lowered = lower(*place_, chosen_.plan);
  for (auto& group : lowered.training.groups)
    if (me == 1 && group.kind == program::Group::Kind::data) std::swap(group.members.front(), group.members.back());
  const auto why = failure_to_take_up(std::move(lowered));
  EXPECT_EQ(why, as_printed(text(name(0), ", ", name(2), ": ", everybody(), ": ", name(1),
                                 " takes other ranks, or another order of them, for the group (also failed: ", name(1), ")", lines())));
}

TEST_F(ProofMessage, OfAWrongSum) {
  const auto lowered = lower(*place_, chosen_.plan);
  const comm::World active{world.control(), comm::patience};
  const program::Group* all = nullptr;
  for (const auto& group : lowered.training.groups)
    if (group.kind == program::Group::Kind::data) all = &group;
  ASSERT_NE(all, nullptr);
  auto groups = comm::connect(active, {*all});
  if (me == 2) groups[0] = std::make_unique<comm::FaultyGroup>(std::move(groups[0]));
  std::string why;
  try {
    comm::verify(active, groups, comm::patience);
  } catch (const comm::AgreedError& error) {
    ActivePlan work;
    work.chosen = chosen_;
    work.active_ranks = lowered.active;
    why = with_plan_lines(error.what(), active, work);
  }
  const float good = comm::KnownSum{*all}(1);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &good, sizeof bits);
  bits ^= 0x100;
  float spoiled = 0;
  std::memcpy(&spoiled, &bits, sizeof bits);
  EXPECT_EQ(why, text(name(2), ": ", everybody(), ": a sum of known values came out wrong (element 1 of 10: ", spoiled, " instead of ",
                      good, "); exclude these ranks one by one to find the faulty one", lines()));
}

/// A rank that stops between the forming of its groups and their proof.
TEST_F(ProofMessage, OfARankThatDoesNotAnswer) {
  config_.comm.deadline = soon;
  auto lowered = lower(*place_, chosen_.plan);
  if (me == 2) {
    const comm::World active{world.control().subset(std::vector<int>{0, 1, 2}), comm::patience};
    for (const char* phase : {"opening the devices", "taking the arena", "taking pinned memory"})
      comm::agree_on(
          active, phase, [] {}, comm::patience);
    mpi::all_gather_strings(active.control(), "computes on a CPU", comm::patience);  // who has a GPU
    comm::agree_on(
        active, "forming the groups", [] {}, comm::patience);
    return meet();  // where the others come when they have given up
  }
  const auto kind = to_string(lowered.training.groups.front().kind);
  const auto why = failure_to_take_up(std::move(lowered));
  meet();
  const auto others = text(name(0), ", ", name(1), ": ");
  const auto silent = [&](double seconds) {
    return text("no answer within ", Seconds{seconds}, " from ", name(2), " (stopped, dead or cut off?)");
  };
  EXPECT_EQ(why, as_printed(text(others, others, "no answer within ", soon, " in gather 48 B over the ", kind, " group of ", name(0), ", ",
                                 name(1), ", ", name(2), ", waiting to receive 16 B from ", name(2), "; ", silent(2 * soon.value + 1),
                                 lines(), "; ", silent(soon.value))));
}

}  // namespace
}  // namespace flotilla::session
