#pragma once
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "flotilla/bench/report.hpp"

namespace flotilla::bench {

/// What a figure of a type of node is usually: median, and median absolute deviation, over nodes, their devices and runs.
struct Baseline {
  std::string type;
  std::string figure;  ///< without the number of a device
  double median = 0;
  double deviation = 0;
  int samples = 0;
  bool operator==(const Baseline&) const = default;
};
/// Of nodes of `type` with `software` so many gave this digest.
struct KnownAnswer {
  std::string type, software, name, digest;
  int nodes = 0;
  bool operator==(const KnownAnswer&) const = default;
};
struct Baselines {
  std::vector<Baseline> figures;
  std::vector<KnownAnswer> answers;
};
/// Of a figure with or without the number of its device; nullptr: none is known.
const Baseline* find_baseline(const Baselines&, const std::string& type, const std::string& figure);
/// From earlier runs. A figure counts where a type has at least `fewest` samples of it.
Baselines learn(std::span<const BenchReport> history, int fewest = 3);

/// Relative deviation that counts: max(the kind's tolerance, 3 x 1.4826 x deviation / median), and one of a kind by itself.
double tolerance(const FigureKind&, const Baseline&);

enum class Grade { ok, watch, drain };
std::string to_string(Grade);

struct Reason {
  Grade grade = Grade::watch;
  std::string check;  ///< "memory_bandwidth", "known answer", "clock", a property's name, ...
  std::string what;   ///< one line for people
  bool operator==(const Reason&) const = default;
};
struct NodeVerdict {
  std::string host;
  Grade grade = Grade::ok;  ///< the worst of its reasons
  std::vector<Reason> reasons;
  bool operator==(const NodeVerdict&) const = default;
};

/// Nodes in the report's order, then the lost ones, then what concerns no single node ("switch gpu, leaf3", "network"). A figure is held
/// against the baseline of its type, or, where there is none, against the other nodes (or GPUs) of its type in this report if they are at
/// least three in all. Worse by more than the tolerance: watch; by more than twice that: drain.
std::vector<NodeVerdict> judge(const BenchReport&, const Baselines&);

/// Hosts by the switch that they hang on, as switch_groups(): the name, or "" of a measured group.
std::vector<std::pair<std::string, std::vector<std::string>>> switches_of(const BenchReport&);

/// "scontrol update NodeName=n3 State=DRAIN Reason=\"flotilla bench: ...\"".
std::string drain_line(const NodeVerdict&);

/// What differs between two runs.
struct Change {
  std::string host;
  std::string what;      ///< a figure's name, "known answer", "node"
  double worse = 0;      ///< relative; negative: better; 0 where no figure changed
  bool beyond = false;   ///< more than the kind's tolerance for the worse, or something that must not change
  std::string in_words;  ///< one line
  std::string was, now;  ///< of a figure, with units
  bool operator==(const Change&) const = default;
};
/// Worst first. Figures of nodes in both reports, answers that changed under the same software, nodes that are gone.
std::vector<Change> compare(const BenchReport& before, const BenchReport& after);

}  // namespace flotilla::bench
