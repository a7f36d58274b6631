#pragma once
#include "network.hpp"
#include "soundings.hpp"

namespace flotilla::search::pool {

/// A sketch's time without its program: per column (n - 1) times the slowest stage plus one way through all stages and back, the last
/// microbatch as short as it is, sequences dealt so that columns end together; then gradient sums and the optimizer. Sums of exact layer
/// times, so it is close; sketches that it ranks high are forecast.
struct Estimate {
  bool fits = false;
  double seconds = 0;
  double value = 0;   ///< of the objective
  double usd = 0;     ///< per iteration, where the objective or a limit asks for it
  double excess = 0;  ///< bytes over the memory of the fullest device, where it does not fit
  double full = 0;    ///< share of the memory of the fullest device that is taken
};

class Estimator {
 public:
  Estimator(const Stock& stock, Soundings& soundings, Network& network, const program::Runtime& runtime)
      : stock_{stock},
        soundings_{soundings},
        network_{network},
        described_{runtime.layers.has_value()},
        whole_messages_{runtime.layers && !runtime.layers->scattered},
        blocking_{runtime.layers && runtime.layers->blocking},
        buffered_{runtime.layers ? static_cast<double>(runtime.layers->buffered.count) : 0},
        handshake_{runtime.layers ? runtime.layers->handshake.value : 0},
        reduction_host_{runtime.layers ? runtime.layers->reduction_host.value : 0} {}

  /// Deals the batch to the sketch's columns; those that get nothing are taken away. Where time is the objective, what takes longer than
  /// `enough` before its sums is not looked at further: its value is above `enough`, its memory unknown.
  Estimate operator()(Sketch&, double enough = 1e300);
  std::int64_t count() const { return count_; }

  /// Whether shares may be dealt level: the runtime takes microbatches of any size, and columns need not be alike.
  bool levels() const { return !described_ && !stock_.request.restrictions.one_microbatch_size; }
  /// Sequences that microbatches may have in plans of the space.
  std::vector<int> sizes() const;
  /// Gives the sketch what the request fixes of it; false where it would need other devices for that.
  bool constrain(Sketch&) const;
  /// One microbatch through layers [first, last) on a replica.
  double pass(const Sounding&, int first, int last) const;
  /// Bytes of a device with these layers that keeps so many microbatches.
  /// `replicas`: that may share the optimizer's state out.
  double memory(const Sounding&, int first, int last, int in_flight, int replicas) const;
  /// Whether the messages of such a microbatch hold the devices at both ends.
  bool blocks_on(int microbatch) const;
  /// Messages that leave a node at once where so many replicas of a stage stand at such slots.
  int flows(const Slot&, int replicas) const;
  /// Members of a tensor-parallel group that share a message.
  int pieces(const Slot& slot) const { return whole_messages_ ? 1 : slot.tensor; }
  int per_node(int place) const { return stock_.types[at(stock_.places[at(place)].type)].per_node; }
  double handshake() const { return handshake_; }  ///< seconds of a message at each end, before data moves
  const Stock& stock() const { return stock_; }
  Soundings& soundings() { return soundings_; }

 private:
  struct Pace {
    double slowest = 0, way = 0;
  };
  bool alike(const Column&, const Column&) const;
  bool measure(const Sketch&);
  void place(const Sketch&);
  bool measure(const Sketch&, std::size_t column, int microbatch, Pace&);
  Pace pace_of_rest(const Sketch&, std::size_t column, const Pace& whole, int sequences);
  double end_of(const Sketch&, std::size_t column, const Pace&);
  struct Fullest {
    double bytes = -1e300, share = 0;
  };
  Fullest over_memory(const Sketch&, const Column&) const;
  double deal_turns(Sketch&);
  double deal_level(Sketch&);
  void even_out(Sketch&, std::size_t column);
  double end_of_dealt(Sketch&);
  double after(const Sketch&);
  double shortest_pass(const Sketch&, int stage);
  int blocks(int first, int last) const;

  const Stock& stock_;
  Soundings& soundings_;
  Network& network_;
  bool described_, whole_messages_, blocking_;
  double buffered_;  ///< bytes of a message that a blocking runtime's library takes without waiting
  double handshake_;
  double reduction_host_;    ///< seconds of a step's gradient sums on the host
  std::vector<Pace> paces_;  ///< by column of the sketch at hand
  std::vector<double> ways_;
  struct Nodes {
    int first = 0, last = 0;
    bool operator==(const Nodes&) const = default;
  };
  std::vector<Nodes> nodes_;  ///< by stage and column: where its replicas stand, of the place's nodes
  std::vector<int> starts_;   ///< by stage and column: devices of its place that stand before
  std::size_t placed_ = 0;    ///< columns when they were placed
  std::vector<int> taken_;    ///< devices, by place
  std::vector<std::pair<std::size_t, double>> groups_;
  std::int64_t count_ = 0;
};

}  // namespace flotilla::search::pool
