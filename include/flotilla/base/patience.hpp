#pragma once
#include <functional>
#include <string_view>

#include "flotilla/base/units.hpp"

namespace flotilla {

/// How long a system call on a file that fails is repeated, with pauses that grow from 50 ms to 5 s.
struct Patience {
  Seconds temporary{30};  ///< while the disk is full or away
  Seconds forbidden{1};   ///< while it says EACCES or EPERM, as network file systems do in passing
};
inline constexpr Patience impatient{{0}, {0}};

/// Repeats `call`, which returns 0 or errno, until it works, fails for another reason, or patience is over; its last answer. Waiting is
/// told once, as a warning that begins with `place`. Local, blocks.
int patiently(std::string_view place, const std::function<int()>& call, const Patience& = {});

}  // namespace flotilla
