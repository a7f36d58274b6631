#pragma once
#include <optional>
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"

namespace flotilla::slurm {

/// Nodes that are kept for somebody, or for maintenance. Times are the site's wall clock, in seconds since 1970 as if it stood in UTC.
struct Reservation {
  std::string name;
  std::vector<std::string> nodes;
  std::optional<Seconds> begin, end;  ///< absent: not told
  bool active = false;
  bool unreadable = false;  ///< its beginning is told in a form of somebody's own (SLURM_TIME_FORMAT): it may be any time

  /// Whether a job that begins at `time` (absent: not known) and may last `length` (absent: without end) would meet it.
  bool meets(std::optional<Seconds> time, std::optional<Seconds> length) const;
};

/// "2026-11-22T07:00:00"; nothing for "Unknown" and whatever else is no such time.
std::optional<Seconds> parse_wall_clock(const std::string&);

/// The answer to scontrol --oneliner show reservation; those without nodes are left out. Throws Error{bad_input} of one line.
std::vector<Reservation> read_reservations(const std::string& answer);

}  // namespace flotilla::slurm
