#pragma once
#include <array>
#include <memory>

#include "best.hpp"
#include "scope.hpp"

namespace flotilla::search::rules {

/// Branch and bound over families of plans (microbatch size, replicas) and boxes of them; see docs/design/plan-search.md.
class Search {
 public:
  /// Steps of work, about nanoseconds, after which the search ends: no clock decides.
  static constexpr std::int64_t most_work = 500'000'000;
  /// So many groups of devices are first looked at together.
  static constexpr std::size_t many_groups = 3;

  explicit Search(const Problem&);
  void run();

  const std::vector<Candidate>& plans() const { return best_.plans(); }
  /// No plan of the space is below this.
  double least() const { return std::min(least_, best_.value()); }
  bool finished() const { return !stopped_ && least_ >= target(); }
  bool stopped() const { return stopped_; }
  std::int64_t considered() const;
  std::int64_t pruned() const { return pruned_; }

 private:
  struct First {
    double pace, likely_pace, bound;  ///< at least
  };
  /// A microbatch size and a number of replicas; the rest is worked out when it is needed.
  struct Start {
    Scope* scope = nullptr;
    const Measures* measures = nullptr;
    int replicas = 0, microbatches = 0;
    bool by_rings = false;  ///< every stage's ring crosses regions
    First first{};
    std::array<std::unique_ptr<Family>, 3> families{};  ///< by grain
  };
  struct Node {
    double bound = 0;
    int number = 0, start = 0;
    Grain grain = Grain::fine;
    Box box{};
    bool operator<(const Node& o) const { return bound != o.bound ? bound > o.bound : number > o.number; }
  };
  double target() const;
  struct Likely {
    double value, time;
  };
  Likely likely(const Start&) const;
  bool told_to_stop() const { return problem_.request.should_stop && problem_.request.should_stop(); }
  void add_starts(Scope&);
  void add_start(Scope&, const Measures&, int replicas);
  void push_boxes(const Scope&);
  void push_boxes(int start);
  void drain(std::int64_t more);
  void try_likely(bool guess);
  void try_start(int start, double below);
  bool try_shape(int start, const Shape&);
  static int least_pace(const Problem&, const Measures&, int replicas, bool whole);
  First first_bound(const Problem&, const Measures&, int replicas, int microbatches) const;
  Family& family(int start, Grain = Grain::fine);
  void push(double bound, int start, const Box&, Grain = Grain::fine);
  void open(const Node&);
  void push_depths(double bound, const Node&);
  bool split(const Node&, double bound, const Rest&, const Path&);
  bool enumerate(const Node&, const Family&, const Rest&, std::int64_t steps, bool little);
  Scope& scope(const Node& node) const { return *starts_[at(node.start)].scope; }
  void leave(double bound);
  std::int64_t work() const;

  const Problem& problem_;
  Value value_;
  std::vector<std::unique_ptr<Scope>> scopes_;
  Best best_;
  std::vector<Start> starts_;
  std::vector<Node> queue_;
  int nodes_ = 0;
  double least_ = never;  ///< of what was given up
  bool stopped_ = false;
  bool guessing_ = false;                                             ///< what is given up is no bound
  std::int64_t pruned_ = 0, work_ = 0, most_work_, end_ = most_work;  ///< end_: of the part at hand
};

}  // namespace flotilla::search::rules
