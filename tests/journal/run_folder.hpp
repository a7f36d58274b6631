#pragma once
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>

#include "flotilla/base/error.hpp"
#include "support/child.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

namespace flotilla::journal::testing {

/// A run directory of one test.
using RunFolder = tests::TemporaryFolder;

using tests::Child;
using tests::content;
using tests::expect_contains;
using tests::refusal;

inline void write(const std::filesystem::path& path, std::string_view text) { std::ofstream{path, std::ios::binary} << text; }

/// As if `path` was last touched this many seconds ago.
inline void age(const std::filesystem::path& path, int seconds) {
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - std::chrono::seconds{seconds});
}

/// A test failure where `condition` never holds.
inline void wait_until(const std::function<bool()>& condition) {
  if (!tests::until(condition, std::chrono::milliseconds{2})) throw std::runtime_error{"waited in vain"};
}

}  // namespace flotilla::journal::testing
