#include "control_requests.hpp"

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/session/control_document.hpp"

namespace flotilla::session {
namespace {

constexpr Seconds between_looks{0.2};  // a look asks the file system, which may be far away

}  // namespace

PlanRequests::PlanRequests(const std::filesystem::path& run, std::function<plan::Plan(plan::Plan, const std::string& source)> bind,
                           plan::Plan active)
    : file_{control_file(run)}, bind_{std::move(bind)}, at_work_{std::move(active)} {}

std::optional<NextPlan> PlanRequests::look() {
  if (now() - last_look_ < between_looks) return std::nullopt;
  last_look_ = now();
  std::error_code ignored;
  if (!std::filesystem::exists(file_, ignored)) return std::nullopt;
  const std::string reason = "requested in " + file_.filename().string();
  try {
    auto next = read();
    next.reason = reason;
    return next;
  } catch (const std::exception& error) {
    NextPlan none;
    none.reason = reason;
    none.refused = error.what();
    return none;
  }
}

NextPlan PlanRequests::read() {
  auto plan = bind_(control_from_json(files::take_own_text(file_), file_.string()), file_.string());
  FLOTILLA_REQUIRE(plan != at_work_, ErrorKind::bad_input, file_.string(), ": this plan is already active");
  return {std::move(plan), "", ""};
}

}  // namespace flotilla::session
