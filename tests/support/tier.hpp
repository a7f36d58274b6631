#pragma once
#include <cstdlib>
#include <string_view>

/// The tiers of the tests (docs/design/ci.md): `tests/run.sh --all` sets FLOTILLA_TESTS_TIER=all.
namespace flotilla::tests {

inline bool all_tier() {
  const char* const tier = std::getenv("FLOTILLA_TESTS_TIER");
  return tier != nullptr && std::string_view{tier} == "all";
}

/// How many of something that could go on for ever (random pools, blows, faults): as many in the default tier, as many before a release.
/// Where the variable is set, as many as it says.
inline int of_tier(int usual, int before_a_release, const char* variable = nullptr) {
  const char* const wanted = variable != nullptr ? std::getenv(variable) : nullptr;
  if (wanted != nullptr) return std::atoi(wanted);
  return all_tier() ? before_a_release : usual;
}

}  // namespace flotilla::tests
