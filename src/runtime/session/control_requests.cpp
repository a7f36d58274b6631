#include "control_requests.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/session/control_document.hpp"

namespace flotilla::session {
namespace {

constexpr Seconds between_looks{0.2};  // a look asks the file system, which may be far away

/// Whoever may write into the run directory could ask for anything: only this user's requests and root's count.
void require_own(const std::filesystem::path& file) {
  struct ::stat facts {};
  FLOTILLA_REQUIRE(::lstat(file.c_str(), &facts) == 0, ErrorKind::unavailable, file.string(), ": ", std::strerror(errno));
  FLOTILLA_REQUIRE(S_ISREG(facts.st_mode), ErrorKind::bad_input, file.string(), ": not a regular file");
  FLOTILLA_REQUIRE(facts.st_uid == ::geteuid() || facts.st_uid == 0, ErrorKind::bad_input, file.string(), ": belongs to user ",
                   facts.st_uid, " and the run to user ", ::geteuid(), "; only the run's owner may ask");
  FLOTILLA_REQUIRE((facts.st_mode & (S_IWGRP | S_IWOTH)) == 0, ErrorKind::bad_input, file.string(),
                   ": others may write it; chmod go-w (flotilla control writes it so)");
}

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
    std::filesystem::remove(file_, ignored);
    NextPlan none;
    none.reason = reason;
    none.refused = error.what();
    return none;
  }
}

NextPlan PlanRequests::read() {
  require_own(file_);
  const auto text = files::read_text(file_);
  std::filesystem::remove(file_);
  auto plan = bind_(control_from_json(text, file_.string()), file_.string());
  FLOTILLA_REQUIRE(plan != at_work_, ErrorKind::bad_input, file_.string(), ": this plan is already active");
  return {std::move(plan), "", ""};
}

}  // namespace flotilla::session
