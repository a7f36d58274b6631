#include "app/control/control.hpp"

#include <sys/stat.h>

#include <chrono>
#include <thread>

#include "app/common/job_table.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/journal/metrics.hpp"
#include "flotilla/journal/run_directory.hpp"
#include "flotilla/session/control_document.hpp"

namespace flotilla::app {
namespace {

namespace fs = std::filesystem;

constexpr double silent_for_good = 120;  // seconds; a lock's heartbeat comes every ten

void require_running(const fs::path& run) {
  files::require_there(run, "the --run.directory of a run that is going on");
  const auto holder = journal::newest_holder(run);
  FLOTILLA_REQUIRE(holder, ErrorKind::unavailable, run.string(),
                   ": not a run directory; expected the --run.directory of a run that is going on");
  FLOTILLA_REQUIRE(!holder->released && holder->heartbeat_age < silent_for_good, ErrorKind::unavailable, run.string(),
                   ": no run is going on here (incarnation ", holder->incarnation, " on ", holder->host,
                   " has ended); start it with --plan instead");
}

/// Of the run's changes of plan and refusals the first after the `known` ones.
std::optional<journal::PlanRecord> answer(const fs::path& run, std::size_t known, Seconds patience) {
  for (const Seconds end = now() + patience; now() < end; std::this_thread::sleep_for(std::chrono::milliseconds{50})) {
    const auto plans = journal::read_metrics(run).plans;
    if (plans.size() > known) return plans[known];
  }
  return std::nullopt;
}

std::size_t changes_so_far(const fs::path& run) {
  std::error_code none;
  return fs::exists(journal::metrics_file(run), none) ? journal::read_metrics(run).plans.size() : 0;
}

}  // namespace

options::Table control_table(ControlOptions& o) {
  options::Table t;
  t.section("control", "What to ask of the run");
  t.add("control.plan", &o.plan, "go on under this plan, in place", {.value = "FILE", .unset = "must be given", .alias = "plan"});
  t.add("control.wait", &o.wait, "how long to wait for the run's answer; 0s: not at all", {.minimum = 0, .alias = "wait"});
  t.section("output", "Output");
  add_output(t, o.output);
  return t;
}

BoundTable control_options() {
  auto options = std::make_shared<ControlOptions>();
  auto table = control_table(*options);
  return {options, std::move(table)};
}

int control(std::span<const std::string> arguments) {
  ControlOptions o;
  auto table = control_table(o);
  const auto operands = table.read_command_line(arguments);
  table.read_environment(options::environment());
  FLOTILLA_REQUIRE(operands.size() == 1 && !o.plan.empty(), ErrorKind::usage, "expected: flotilla control RUN --plan PLAN");
  log::set_level(o.output.log_level);
  const fs::path run = operands[0];
  const auto plan = files::read_plan(o.plan);
  require_running(run);
  const auto known = changes_so_far(run);
  ::umask(::umask(0) | S_IWGRP | S_IWOTH);  // a run takes no request that others could have changed
  files::write_text(session::control_file(run), session::control_to_json(plan));
  if (o.wait.value <= 0) {
    log::info(run.string(), ": asked for ", plan::summary(plan));
    return static_cast<int>(ExitCode::done);
  }
  const auto record = answer(run, known, o.wait);
  FLOTILLA_REQUIRE(record, ErrorKind::unavailable, run.string(), ": no answer within ", o.wait,
                   "; a run looks between two steps, and the request stays for it (", session::control_file(run).string(), ")");
  FLOTILLA_REQUIRE(record->refused.empty(), ErrorKind::bad_input, "refused after step ", record->step, ": ", record->refused);
  write_output(o.output, text("changed after step ", record->step, ": ", record->plan, "; ", Bytes{record->moved_bytes}, " moved, pause ",
                              Seconds{record->pause_seconds}, "\n"));
  return static_cast<int>(ExitCode::done);
}

}  // namespace flotilla::app
