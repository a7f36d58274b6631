#pragma once
#include <cstdint>
#include <string>

namespace flotilla::journal {

/// What tells a process from every other, on every host and over time.
struct Process {
  std::string host;
  int pid = 0;
  std::uint64_t start = 0;          ///< ticks since the host booted: a reused pid has another
  std::string boot_id;              ///< of the kernel; containers on one machine share it
  std::uint64_t pid_namespace = 0;  ///< pids of another namespace mean nothing here
  bool operator==(const Process&) const = default;
};

Process this_process();

/// True only when it is certain that the process has ended: it ran under this very kernel and pid namespace, and is gone, is a zombie
/// without other threads, or its pid now belongs to another process.
bool is_certainly_dead(const Process&);

/// Seconds since 1970.
double wall_clock();
/// "2026-11-21 01:30:00 UTC"
std::string utc_text(double seconds_since_1970);

}  // namespace flotilla::journal
