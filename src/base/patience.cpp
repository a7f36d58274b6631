#include "flotilla/base/patience.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/io_failure.hpp"
#include "flotilla/base/log.hpp"

namespace flotilla {
namespace {

constexpr Seconds first_pause{0.05}, longest_pause{5};

Seconds limit_for(int error, const Patience& patience) {
  if (io_failure(error) == IoFailure::temporary) return patience.temporary;
  return error == EACCES || error == EPERM ? patience.forbidden : Seconds{};
}

}  // namespace

int patiently(std::string_view place, const std::function<int()>& call, const Patience& patience) {
  const Seconds begin = now();
  for (Seconds pause = first_pause;; pause = std::min(2 * pause, longest_pause)) {
    const int error = call();
    if (error == 0) return error;
    const Seconds limit = limit_for(error, patience);
    if (now() - begin >= limit) return error;
    if (pause == first_pause) log::warning(place, ": ", std::strerror(error), "; trying again for up to ", limit);
    std::this_thread::sleep_for(std::chrono::duration<double>{pause.value});
  }
}

}  // namespace flotilla
