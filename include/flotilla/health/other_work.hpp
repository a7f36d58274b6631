#pragma once
#include <filesystem>
#include <functional>
#include <optional>

namespace flotilla::health {

/// What other programs take of this machine's processors from the making of this on: its busy time, that which a hypervisor took included,
/// without this process's. Local.
class OtherWork {
 public:
  explicit OtherWork(std::filesystem::path proc = "/proc");
  /// Of all hardware threads' time, 0 to 1; nothing where the kernel does not say or no time has passed.
  std::optional<double> share() const;
  /// What happens in `body` does not count.
  void leave_out(const std::function<void()>& body);

 private:
  struct Reading {
    double busy = 0, all = 0, own = 0;  ///< seconds of processors
  };
  std::optional<Reading> read() const;
  std::filesystem::path proc_;
  std::optional<Reading> begin_;
};

}  // namespace flotilla::health
