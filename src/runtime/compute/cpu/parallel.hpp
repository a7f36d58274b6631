#pragma once
#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "flotilla/base/error.hpp"
#include "flotilla/model/tensors.hpp"
#include "kernels.hpp"

namespace flotilla::compute::cpu {

/// Sets the calling thread's OpenMP thread count for a while. oneDNN reads it when it constructs a primitive and again when it runs it.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_{omp_get_max_threads()} { omp_set_num_threads(threads); }
  ~ThreadCount() { omp_set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

/// Deals rows to `threads` shares, fixed whatever threads OpenMP really grants, and calls body(share, Rows) for each.
template <class Body>
void for_shares(int threads, std::int64_t rows, const Body& body) {
#pragma omp parallel num_threads(threads)
  for (int share = omp_get_thread_num(); share < threads; share += omp_get_num_threads()) {
    const model::UnitRange range = model::share(rows, threads, share);
    body(share, Rows{range.first, range.last});
  }
}

/// As for_shares, in pieces of a few rows: kernels called one after the other on a piece find it in the cache.
template <class Body>
void for_pieces(Rows rows, const Body& body) {
  constexpr std::int64_t piece = 8;
  for (std::int64_t first = rows.first; first < rows.last; first += piece) body(Rows{first, std::min(first + piece, rows.last)});
}

/// Cuts an operation's temporaries from its workspace.
class Workspace {
 public:
  explicit Workspace(std::byte* start) : start_{start} {}
  template <class T>
  T* take(std::int64_t count) {
    T* taken = reinterpret_cast<T*>(start_ + used_.count);
    used_ += align_up({static_cast<std::int64_t>(sizeof(T)) * count}, 64);
    return taken;
  }
  Bytes used() const { return used_; }

 private:
  std::byte* start_;
  Bytes used_;
};

/// Sums over rows: one partial sum per share, added to the result in the order of shares.
class ColumnSums {
 public:
  ColumnSums(Workspace& workspace, int shares, std::int64_t width)
      : width_{width}, pitch_{(width + 15) / 16 * 16}, shares_{shares}, sums_{workspace.take<float>(pitch_ * shares)} {}

  /// Sets a share's sums to zero and returns them.
  float* start(int share) const {
    float* sums = sums_ + share * pitch_;
    std::fill_n(sums, width_, 0.0f);
    return sums;
  }
  /// result[j] += column first + j, for j < count; nothing where nobody wants it (null).
  void add_to(float* result, std::int64_t first, std::int64_t count) const {
    if (result == nullptr) return;
    for (int share = 0; share < shares_; ++share)
      for (std::int64_t j = 0; j < count; ++j) result[j] += sums_[share * pitch_ + first + j];
  }

 private:
  std::int64_t width_, pitch_;
  int shares_;
  float* sums_;
};

}  // namespace flotilla::compute::cpu
