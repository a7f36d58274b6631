#pragma once

namespace flotilla::first_light {

/// Rates of the device, then every kernel at the sizes of a GPT-2 124M step (16 sequences of 1024), or at tiny ones. One JSON object a
/// line, on standard output.
void measure_speed(bool tiny);

}  // namespace flotilla::first_light
