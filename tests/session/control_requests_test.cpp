// The run's side of `flotilla control`: a file that is found, read, answered and gone.
#include "control_requests.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "flotilla/base/error.hpp"
#include "flotilla/model/config.hpp"
#include "flotilla/session/control_document.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::session {
namespace {

namespace fs = std::filesystem;

plan::Plan plan_of(int data, int pipeline) {
  return plan::even_plan(model::built_in("gpt2-tiny"), 32, 8, Precision::fp32, data, pipeline, 1, 2);
}

class ControlRequests : public ::testing::Test {
 protected:
  PlanRequests requests() const {
    return {run_,
            [](plan::Plan plan, const std::string& source) {
              FLOTILLA_REQUIRE(plan::rank_count(plan) <= 2, ErrorKind::no_plan, source, ": there are 2 ranks");
              return plan;
            },
            plan_of(2, 1)};
  }
  void ask(const std::string& text) const { std::ofstream{control_file(run_)} << text; }
  bool gone() const { return !fs::exists(control_file(run_)); }

  const tests::TemporaryFolder run_;
};

TEST_F(ControlRequests, NothingIsWantedWhereNobodyAsks) { EXPECT_FALSE(requests().look()); }

TEST_F(ControlRequests, ARequestIsTakenAway) {
  ask(control_to_json(plan_of(1, 2)));
  auto wanted = requests();
  const auto next = wanted.look();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->plan, plan_of(1, 2));
  EXPECT_EQ(next->reason, "requested in control.json");
  EXPECT_EQ(next->refused, "");
  EXPECT_TRUE(gone());
}

TEST_F(ControlRequests, WhatCannotBeIsRefusedAndTakenAwayToo) {
  for (const auto& [asked, why] :
       std::vector<std::pair<std::string, std::string>>{{control_to_json(plan_of(2, 1)), "this plan is already active"},
                                                        {control_to_json(plan_of(2, 2)), "there are 2 ranks"},
                                                        {"{", "control.json"}}) {
    ask(asked);
    const auto next = requests().look();
    ASSERT_TRUE(next) << asked;
    EXPECT_NE(next->refused.find(why), std::string::npos) << next->refused;
    EXPECT_TRUE(gone());
  }
}

TEST_F(ControlRequests, WhatOthersMayHaveWrittenIsRefusedAndTakenAway) {
  ask(control_to_json(plan_of(1, 2)));
  fs::permissions(control_file(run_), fs::perms::group_write, fs::perm_options::add);
  const auto written = requests().look();
  ASSERT_TRUE(written);
  EXPECT_NE(written->refused.find("others may write it"), std::string::npos) << written->refused;
  EXPECT_TRUE(gone());
  std::ofstream{run_ / "elsewhere.json"} << control_to_json(plan_of(1, 2));
  fs::create_symlink(run_ / "elsewhere.json", control_file(run_));
  const auto linked = requests().look();
  ASSERT_TRUE(linked);
  EXPECT_NE(linked->refused.find("not a regular file"), std::string::npos) << linked->refused;
  EXPECT_TRUE(fs::exists(run_ / "elsewhere.json"));
}

TEST_F(ControlRequests, AnotherUsersRequestIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ask(control_to_json(plan_of(1, 2)));
  ASSERT_EQ(::chown(control_file(run_).c_str(), 65534, 65534), 0);
  const auto next = requests().look();
  ASSERT_TRUE(next);
  EXPECT_NE(next->refused.find("belongs to user 65534"), std::string::npos) << next->refused;
}

TEST_F(ControlRequests, LooksNowAndThenOnly) {
  auto wanted = requests();
  EXPECT_FALSE(wanted.look());
  ask(control_to_json(plan_of(1, 2)));
  std::optional<NextPlan> next;
  int looks = 0;
  while (!next) next = wanted.look(), ++looks;
  EXPECT_GT(looks, 1) << "the file system is not asked each time";
}

TEST_F(ControlRequests, TheDocumentReadsBack) {
  EXPECT_EQ(control_from_json(control_to_json(plan_of(2, 2)), "here"), plan_of(2, 2));
  EXPECT_THROW(control_from_json(R"({"format": "flotilla-plan", "version": 1})", "here"), Error);
}

}  // namespace
}  // namespace flotilla::session
