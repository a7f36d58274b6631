#pragma once
#include "app/common/job.hpp"

namespace flotilla::app {

options::Choice<Precision> precisions();
/// "auto": nothing, left open.
options::Choice<std::optional<Precision>> open_precisions();

/// What is fixed of plans, in a section that is open: degrees, microbatch, schedule and so on to plan.cuts.
void add_constraints(options::Table&, Job::Plan&);

/// Opens the section of devices, with what chooses among those that are there.
void add_device_choice(options::Table&, std::optional<cluster::DeviceKind>& kind, bool& tf32);

/// The options of commands that print something: -o, --format, --log-level.
void add_output(options::Table&, Job::Output&);

}  // namespace flotilla::app
