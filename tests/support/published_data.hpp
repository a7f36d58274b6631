#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

/// Data that others published and that is no part of this project: ../shared/reference beside the source tree, or $FLOTILLA_REFERENCE.
namespace flotilla::tests {

inline std::filesystem::path published_data(const std::string& name) {
  if (const char* folder = std::getenv("FLOTILLA_REFERENCE")) return std::filesystem::path{folder} / name;
  return std::filesystem::path{FLOTILLA_PUBLISHED_DATA} / name;
}

/// A part of a source whose kind of run no figure was chosen on, and whose error is known to be large (docs/measurements/validation.md).
inline bool is_sample(const std::string& source) { return source.ends_with("_sample"); }

}  // namespace flotilla::tests

/// Ends the test where that data is not here.
#define FLOTILLA_SKIP_WITHOUT_DATA(name)                                 \
  if (!std::filesystem::exists(::flotilla::tests::published_data(name))) \
  GTEST_SKIP() << ::flotilla::tests::published_data(name).string() << " is absent; FLOTILLA_REFERENCE names another folder"
