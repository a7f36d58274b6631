#pragma once

namespace flotilla::mpi {

/// How a polling loop waits: first it yields, then it sleeps a little longer each time, up to 0.2 ms. Many ranks and threads share few
/// cores without starving each other, and an answer that comes at once is seen at once.
class Backoff {
 public:
  /// Call after a round that found nothing.
  void pause() noexcept;
  /// Call after a round that found something.
  void reset() noexcept { rounds_ = 0; }

 private:
  int rounds_ = 0;
};

}  // namespace flotilla::mpi
