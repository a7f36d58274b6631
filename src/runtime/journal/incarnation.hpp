#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/base/patience.hpp"
#include "flotilla/journal/run_directory.hpp"
#include "process.hpp"

namespace flotilla::journal {

/// RUN/incarnations/N.json: the claim of the N-th start. The one with the highest number holds the run directory.
struct Claim {
  int number = 0;
  Process process;
  std::string job;
  double started = 0;
  double released = 0;   ///< 0 while it holds
  double heartbeat = 0;  ///< when the file was last touched
  bool readable = true;  ///< false: the file is damaged, or not yet filled
};

std::filesystem::path incarnations_folder(const std::filesystem::path& run);
std::filesystem::path claim_file(const std::filesystem::path& run, int number);

/// Highest number that an incarnation can have; a file with a higher one is none of ours.
inline constexpr int last_incarnation = 999'999'999;

/// Numbers in the folder, ascending. Throws Error{temporary, unavailable} when the folder is there and cannot be listed: who took that for
/// "none" would start a run over a run.
std::vector<int> incarnation_numbers(const std::filesystem::path& run, const Patience& = {});
/// The highest of them; 0 without any.
int newest_incarnation(const std::filesystem::path& run, const Patience& = {});
/// Nothing when there is no such file. Throws as incarnation_numbers().
std::optional<Claim> read_claim(const std::filesystem::path& run, int number);
std::string to_json(const Claim&);

enum class Standing { held, released, dead, stale };
/// `now` is the file system's clock.
Standing judge(const Claim&, double now, Seconds stale_after);

/// "incarnation 3 (n2, pid 41, job 77), started 2026-11-21 01:30:00 UTC, last heartbeat 4 s ago"
std::string description(const Claim&, double now);

}  // namespace flotilla::journal
