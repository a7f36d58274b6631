#pragma once

namespace flotilla::first_light {

/// What NCCL makes of the visible GPUs, a process for each: collectives with known answers, their bandwidth by the formulas of nccl-tests,
/// and how long an abort takes while a member is missing. One JSON object a line, on standard output; one that says why there is nothing.
/// Exit code: 1 for a wrong answer or an abort that hangs. Opens no device in this process.
int measure_groups(bool tiny);

}  // namespace flotilla::first_light
