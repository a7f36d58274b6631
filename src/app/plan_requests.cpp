#include "app/plan_requests.hpp"

#include "app/control.hpp"
#include "app/plan_choice.hpp"
#include "app/training_setup.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/text_file.hpp"

namespace flotilla::app {
namespace {

constexpr Seconds between_looks{0.2};  // a look asks the file system, which may be far away

}  // namespace

PlanRequests::PlanRequests(const Job& job, const std::filesystem::path& run, cluster::Profile profile, int ranks, plan::Plan at_work)
    : job_{job}, file_{control_file(run)}, profile_{std::move(profile)}, ranks_{ranks}, at_work_{std::move(at_work)} {}

std::optional<NextPlan> PlanRequests::look() {
  if (now() - last_look_ < between_looks) return std::nullopt;
  last_look_ = now();
  std::error_code none;
  if (!std::filesystem::exists(file_, none)) return std::nullopt;
  const std::string reason = "requested in " + file_.filename().string();
  try {
    auto next = read();
    next.reason = reason;
    return next;
  } catch (const std::exception& error) {
    std::filesystem::remove(file_, none);
    return NextPlan{"", reason, error.what()};
  }
}

NextPlan PlanRequests::read() {
  const auto text = files::read_text(file_);
  std::filesystem::remove(file_);
  const auto plan = for_job(control_from_json(text, file_.string()), search_request(job_), profile_, ranks_, file_.string());
  FLOTILLA_REQUIRE(plan != at_work_, ErrorKind::bad_input, file_.string(), ": this plan is already active");
  return {files::plan_to_json(plan), "", ""};
}

}  // namespace flotilla::app
