#pragma once

namespace flotilla::gpu {

/// Whether a profiler of NVIDIA's has asked for the names of ranges (NVTX). Looked at once, at the first call. Thread-safe.
bool profiled() noexcept;

/// Names what its thread does between construction and destruction, on the profiler's timeline. Ranges of a thread nest. `name` is read at
/// construction. Without a profiler it calls nothing.
class NamedRange {
 public:
  explicit NamedRange(const char* name) noexcept : open_{profiled()} {
    if (open_) push(name);
  }
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;
  ~NamedRange() {
    if (open_) pop();
  }

 private:
  static void push(const char* name) noexcept;
  static void pop() noexcept;
  bool open_;
};

}  // namespace flotilla::gpu
