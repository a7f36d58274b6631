#pragma once
#include <cstdint>
#include <limits>
#include <vector>

namespace flotilla::data {

/// Which source each sequence of a run is taken from, by the sequence's position in the run (step x global batch + index), in time that
/// grows with the logarithm of the number of sources, in any order, without random numbers or tables.
///
/// A binary tree over the sources splits positions: of the first m that reach a node whose halves weigh a and b - a, round(m a / b) go to
/// the left. So a source of weight w has had w n +- d / 2 of the first n sequences, where d = ceil(log2(sources)), and w n +- d of any n in
/// a row. A source that has given all it may is left out from there on; the others keep their weights relative to each other.
class Blend {
 public:
  static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();
  struct Part {
    double weight = 1;              ///< relative to the others', above 0
    std::int64_t most = unlimited;  ///< sequences that the source gives, from the first on
  };
  struct Draw {
    int source = 0;
    std::int64_t number = 0;  ///< of the source's sequences, from 0
    bool operator==(const Draw&) const = default;
  };

  /// At least one part.
  explicit Blend(std::vector<Part> parts) { change(0, std::move(parts)); }
  /// From this position on, which is at or behind the last change's, these parts count; as many as before, in the same order.
  void change(std::int64_t position, std::vector<Part> parts);

  /// Positions that can be drawn.
  std::int64_t size() const { return end_; }
  /// Of a position in [0, size()).
  Draw operator()(std::int64_t position) const;
  /// How many of the first `positions` (at most size()) are of each source.
  std::vector<std::int64_t> counts(std::int64_t positions) const;

 private:
  /// Positions from `begin` on, dealt among the same sources.
  struct Stretch {
    std::int64_t begin = 0;
    std::vector<std::int64_t> before;         ///< of each source, sequences drawn before
    std::vector<int> sources;                 ///< that take part
    std::vector<std::int64_t> weights_up_to;  ///< of the first i of them, whole numbers

    std::int64_t weight(std::size_t first, std::size_t last) const { return weights_up_to[last] - weights_up_to[first]; }
    /// Of the first m positions, how many go to the i-th of `sources`.
    std::int64_t count(std::int64_t m, std::size_t i) const;
    /// The least m of which so many go to the i-th.
    std::int64_t least(std::int64_t count, std::size_t i) const;
  };
  Stretch stretch(std::int64_t begin, std::vector<std::int64_t> before, const std::vector<Part>&) const;
  const Stretch& at(std::int64_t position) const;

  std::vector<Stretch> stretches_;
  std::int64_t end_ = unlimited;
};

}  // namespace flotilla::data
