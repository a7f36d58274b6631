#pragma once
#include "network.hpp"
#include "soundings.hpp"

namespace flotilla::search::pool {

/// A sketch's time without its program: per column (n - 1) times the slowest stage plus one way through all stages and back, sequences
/// dealt so that columns end together; then gradient sums and the optimizer. Sums of exact layer times, so it is close; sketches that it
/// ranks high are forecast.
struct Estimate {
  bool fits = false;
  double seconds = 0;
  double value = 0;   ///< of the objective
  double usd = 0;     ///< per iteration, where the objective or a limit asks for it
  double excess = 0;  ///< bytes over the memory of the fullest device, where it does not fit
};

class Estimator {
 public:
  Estimator(const Stock& stock, Soundings& soundings, Network& network, const program::Runtime& runtime)
      : stock_{stock},
        soundings_{soundings},
        network_{network},
        described_{runtime.layers.has_value()},
        blocking_{runtime.layers && runtime.layers->blocking},
        buffered_{runtime.layers ? static_cast<double>(runtime.layers->buffered.count) : 0} {}

  /// Deals the batch to the sketch's columns; those that get nothing are taken away.
  Estimate operator()(Sketch&);
  std::int64_t count() const { return count_; }

  /// One microbatch through layers [first, last) on a replica.
  double pass(const Sounding&, int first, int last) const;
  /// Bytes of a device with these layers that keeps so many microbatches.
  double memory(const Sounding&, int first, int last, int in_flight) const;
  /// Whether the messages of such a microbatch hold the devices at both ends.
  bool blocks_on(int microbatch) const;
  const Stock& stock() const { return stock_; }
  Soundings& soundings() { return soundings_; }

 private:
  struct Pace {
    double slowest = 0, way = 0;
  };
  bool alike(const Column&, const Column&) const;
  bool measure(const Sketch&);
  double over_memory(const Sketch&, const Column&) const;
  double deal(Sketch&);
  double after(const Sketch&);
  double shortest_pass(const Sketch&, int stage);
  int blocks(int first, int last) const;

  const Stock& stock_;
  Soundings& soundings_;
  Network& network_;
  bool described_, blocking_;
  double buffered_;          ///< bytes of a message that a blocking runtime's library takes without waiting
  std::vector<Pace> paces_;  ///< by column of the sketch at hand
  std::vector<std::pair<std::size_t, double>> groups_;
  std::int64_t count_ = 0;
};

}  // namespace flotilla::search::pool
