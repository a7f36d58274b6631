#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "flotilla/bench/soak.hpp"

namespace flotilla::health {

struct SoakTest {
  Seconds length{};
  /// Asked several times a second: a word such as "SIGTERM" ends the soak.
  std::function<std::optional<std::string>()> stopped = [] { return std::optional<std::string>{}; };
  /// Told after each second or so, with all that is known.
  std::function<void(const bench::Soak&)> progress = [](const bench::Soak&) {};
  std::filesystem::path sys = "/sys";
};

/// The known-answer step on every hardware thread that this process may use, by a thread bound to it, and a larger one on every GPU that it
/// sees and has kernels for, over and over. Local. Throws what a step throws, and Error{unavailable} where a thread cannot be bound.
bench::Soak soak(const SoakTest&);

}  // namespace flotilla::health
