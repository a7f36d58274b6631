#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/base/exit_code.hpp"

namespace flotilla::journal {

/// How an incarnation ended, as one rank saw it.
struct Outcome {
  int incarnation = 0;
  int rank = 0;
  std::string host = {};
  ExitCode exit_code = ExitCode::done;
  std::string reason = {};  ///< one line: "finished", "SIGUSR1: saved at step 40", an error's message
  std::int64_t step = 0;    ///< steps completed
  double time = 0;          ///< seconds since 1970; 0: filled in when written
  bool temporary = false;   ///< the run directory was full or away: starting again may help
  bool operator==(const Outcome&) const = default;
};

/// Writes RUN/outcomes/<incarnation>.<rank>.json, then RUN/outcome.json as the merge of all of that incarnation's. Both appear whole or not
/// at all, and whoever writes last, outcome.json ends as the merge of all. An incarnation older than the newest leaves outcome.json alone.
/// Any rank, any thread, without agreement with others; a rank's first outcome of an incarnation stays (what follows is a
/// consequence). Never throws: false when it could not be written, after a line on standard error, or when the incarnation is
/// less than 1 (the directory was never held). Not for signal handlers.
bool write_outcome(const std::filesystem::path& run, Outcome) noexcept;

/// The one that tells why: the gravest first (our bug, bad input, something missing, no plan, usage, lost peer, requeue, done; a lost peer
/// is what the others see when one rank fails for another reason), then the earliest, then the lowest rank. Nothing when empty.
std::optional<Outcome> merge(const std::vector<Outcome>&);

/// All outcomes of one incarnation, by rank. Throws Error{bad_input}: file, what was expected.
std::vector<Outcome> read_outcomes(const std::filesystem::path& run, int incarnation);
/// RUN/outcome.json; nothing when there is none. Throws Error{bad_input}.
std::optional<Outcome> read_outcome(const std::filesystem::path& run);

}  // namespace flotilla::journal
