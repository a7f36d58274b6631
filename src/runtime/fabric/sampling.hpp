#pragma once
#include <functional>
#include <vector>

#include "flotilla/base/units.hpp"
#include "flotilla/fabric/fabric.hpp"
#include "transport_end.hpp"

namespace flotilla::fabric {

/// Sent untimed before messages that are smaller. Buffers of the ends hold it.
inline constexpr Bytes burst_size{256 << 10};

/// The side of a pair that decides what is measured until `end`, where the test has a time, and times it. By size.
std::vector<bench::LinkPoint> ask(TransportEnd&, const LinkTest&, Seconds end);
/// The other side; returns when the first has all that it wants.
void answer(TransportEnd&);

/// Seconds of one message as the link settles: samples of about `slice` until the last is no slower than the one before, so that what a
/// shaped link lets through in a burst does not count. `run` takes so many messages and returns what they took. Pure but for `run`.
Seconds settled(Seconds slice, const std::function<Seconds(int messages)>& run);

}  // namespace flotilla::fabric
