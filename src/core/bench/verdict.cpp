#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "baseline.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/text.hpp"
#include "network.hpp"
#include "soak.hpp"
#include "statistics.hpp"

namespace flotilla::bench {
namespace {

constexpr double drain_factor = 2;  // of the tolerance
constexpr int fewest_siblings = 3;  // that make a majority or a baseline among themselves
constexpr double slow_core = 1.15, very_slow_core = 1.3;
constexpr double slow_core_beside_others = 2;            // caches and cores that are shared with other programs make less than that
constexpr double company_explains = 10;                  // times as slow as nodes of its type that are as busy
constexpr double clock_apart = 1, clock_far_apart = 60;  // seconds

using Reasons = std::vector<Reason>;
/// How many nodes have each value.
using Votes = std::map<std::string, int>;

/// What the nodes of one type say.
struct TypeVotes {
  int nodes = 0;
  std::map<std::string, Votes> properties;                       ///< by name
  std::map<std::pair<std::string, std::string>, Votes> answers;  ///< digests by software and name
};

/// What a node is held against.
struct Surroundings {
  Baselines learned, siblings;
  Baselines crowd;  ///< of siblings, those that others use as well included: what busy nodes are held against at last
  std::map<std::string, TypeVotes> types;
  double usual_clock_error = 0;
  Votes synchronized;
};

Surroundings surroundings_of(const BenchReport& report, const Baselines& learned) {
  Surroundings s;
  std::vector<const NodeReport*> nodes;
  std::vector<double> clock_errors;
  for (const auto& node : report.nodes) {
    nodes.push_back(&node);
    clock_errors.push_back(node.clock_error);
    ++s.synchronized[node.clock_synchronized ? "yes" : "no"];
    auto& type = s.types[node.type];
    ++type.nodes;
    for (const auto& p : node.properties) ++type.properties[p.name][p.value];
    for (const auto& a : node.answers) ++type.answers[{software_of(node), without_device_number(a.name)}][a.digest];
  }
  for (const auto& known : learned.answers) s.types[known.type].answers[{known.software, known.name}][known.digest] += known.nodes;
  s.learned = learned;
  s.siblings = baselines_of(nodes, fewest_siblings);
  s.crowd = baselines_of(nodes, fewest_siblings, true);
  if (!clock_errors.empty()) s.usual_clock_error = median_of(clock_errors);
  return s;
}

Grade grade_of(double worse, double allowed) {
  return worse <= allowed ? Grade::ok : worse <= drain_factor * allowed ? Grade::watch : Grade::drain;
}

/// Who a figure or an answer of this name is held against.
const char* siblings_in_words(const std::string& name) {
  return without_device_number(name) == name ? "nodes of its type" : "GPUs of its type";
}

/// The value that more than half of at least `fewest` votes are for, or nullptr.
const std::string* majority(const Votes& votes, int fewest) {
  int all = 0;
  const std::string* top = nullptr;
  int most = 0;
  for (const auto& [value, count] : votes) {
    all += count;
    if (count > most) most = count, top = &value;
  }
  return all >= fewest && 2 * most > all ? top : nullptr;
}

/// A rate below a tenth, a time above ten times what the processors' share that others left would reach; of disks, of the usual.
bool beyond_company(const FigureKind& kind, const NodeReport& node, double worse) {
  constexpr double least_left = 0.01;
  const double left = kind.key.starts_with("disk") ? 1 : std::max(least_left, 1 - node.others), explained = company_explains / left;
  return kind.more_is_better ? worse > 1 - 1 / explained : worse > explained - 1;
}

void judge_figures(const NodeReport& node, const Surroundings& around, Reasons& reasons) {
  for (const auto& figure : node.figures) {
    const auto* baseline = find_baseline(around.learned, node.type, figure.name);
    const bool from_history = baseline != nullptr;
    if (!from_history) baseline = find_baseline(around.siblings, node.type, figure.name);
    if (baseline == nullptr && busy(node)) baseline = find_baseline(around.crowd, node.type, figure.name);
    if (baseline == nullptr) continue;
    const auto& kind = kind_of(figure.name);
    const double worse = worsening(kind, baseline->median, figure.value), allowed = tolerance(kind, *baseline);
    const bool disturbed = kind.by_time && busy(node);  // whatever their scatter, times of busy nodes count beyond what company explains
    if (disturbed && !beyond_company(kind, node, worse)) continue;
    const Grade grade = disturbed ? Grade::drain : grade_of(worse, allowed);
    if (grade == Grade::ok) continue;
    reasons.push_back(
        {grade, figure.name,
         text(in_words(figure), ", ", percent(worse), " worse than ", value_in_words({figure.name, baseline->median}), " (median of ",
              baseline->samples, from_history ? " earlier " : " ", siblings_in_words(figure.name), "; tolerance ", percent(allowed), ")")});
  }
}

bool is_hardware(const std::string& name) {
  static const std::set<std::string> hardware{property::sockets,          property::numa_nodes, property::cores,
                                              property::hardware_threads, property::gpus,       property::rdma};
  return hardware.contains(name);
}

void judge_properties(const NodeReport& node, const TypeVotes& type, Reasons& reasons) {
  for (const auto& mine : node.properties) {
    const auto& votes = type.properties.at(mine.name);
    const auto* usual = majority(votes, fewest_siblings);
    if (usual == nullptr || *usual == mine.value) continue;
    reasons.push_back(
        {is_hardware(mine.name) ? Grade::drain : Grade::watch, mine.name,
         text(mine.name, ": ", mine.value, ", where ", votes.at(*usual), " of ", type.nodes, " nodes of its type have ", *usual)});
  }
}

void judge_memlock(const NodeReport& node, Reasons& reasons) {
  const auto* rdma = find_property(node, property::rdma);
  const auto* memlock = find_property(node, property::memlock);
  if (rdma == nullptr || *rdma == property::none || memlock == nullptr || *memlock == property::unlimited) return;
  reasons.push_back({Grade::watch, property::memlock,
                     text("memlock: ", *memlock, ", but ", *rdma,
                          " registers memory; allow unlimited in /etc/security/limits.conf and in slurmd's unit")});
}

void judge_clock(const NodeReport& node, const Surroundings& around, Reasons& reasons) {
  const double apart = node.clock_error - around.usual_clock_error;
  if (std::abs(apart) > clock_apart)
    reasons.push_back({std::abs(apart) > clock_far_apart ? Grade::drain : Grade::watch, "clock",
                       text("its clock is ", Seconds{std::abs(apart)}, apart > 0 ? " ahead" : " behind", "; chronyc makestep")});
  const auto* usual = majority(around.synchronized, fewest_siblings);
  if (!node.clock_synchronized && usual != nullptr && *usual == "yes")
    reasons.push_back({Grade::watch, "clock", "its clock is not synchronized, those of the other nodes are; systemctl status chronyd"});
}

void judge_answers(const NodeReport& node, const TypeVotes& type, Reasons& reasons) {
  for (const auto& answer : node.answers) {
    const auto& votes = type.answers.at({software_of(node), without_device_number(answer.name)});
    if (votes.size() < 2) continue;
    const auto* right = majority(votes, 2);
    if (right != nullptr && *right == answer.digest) continue;
    reasons.push_back({right != nullptr ? Grade::drain : Grade::watch, "known answer",
                       text("the training step (", answer.name, ") gives ", answer.digest,
                            right != nullptr ? text(", where ", votes.at(*right), " ", siblings_in_words(answer.name), " give ", *right)
                                             : text(", and ", siblings_in_words(answer.name), " do not agree; measure more of them"))});
  }
}

void judge_core_digests(const NodeReport& node, Reasons& reasons) {
  Votes votes;
  for (const auto& core : node.cores) ++votes[core.digest];
  if (votes.size() < 2) return;
  const auto* right = majority(votes, 2);
  if (right == nullptr) {
    reasons.push_back({Grade::drain, "known answer", "its hardware threads do not agree on the bits of a training step"});
    return;
  }
  for (const auto& core : node.cores)
    if (core.digest != *right)
      reasons.push_back(
          {Grade::drain, "known answer",
           text("hardware thread ", core.cpu, " gives other bits in a training step than ", votes.at(*right), " others of the node")});
}

void judge_core_speeds(const NodeReport& node, Reasons& reasons) {
  if (node.cores.size() < 2) return;
  std::vector<double> times;
  for (const auto& core : node.cores) times.push_back(core.step.value);
  std::ranges::sort(times);
  const double usual = times[(times.size() - 1) / 2];
  for (const auto& core : node.cores) {
    const double factor = usual > 0 ? core.step.value / usual : 1;
    if (factor <= (busy(node) ? slow_core_beside_others : slow_core)) continue;
    reasons.push_back({factor > very_slow_core ? Grade::drain : Grade::watch, "slow core",
                       text("hardware thread ", core.cpu, " takes ", formatted("%.2f", factor),
                            " times as long for a training step as the node's median")});
  }
}

/// Times of a node that others use as well say nothing about it; that they use it does.
void judge_company(const NodeReport& node, Reasons& reasons) {
  if (!busy(node)) return;
  reasons.push_back(
      {Grade::watch, "busy",
       text("busy, its times are not judged: other programs took ", percent(node.others), " of its processors while it was tested")});
}

void judge_failures(const NodeReport& node, Reasons& reasons) {
  for (const auto& failure : node.failures) reasons.push_back({Grade::drain, failure.test, text(failure.test, ": ", failure.reason)});
}

NodeVerdict verdict_of(const std::string& host, Reasons reasons) {
  NodeVerdict verdict{host, Grade::ok, std::move(reasons)};
  std::ranges::stable_sort(verdict.reasons, std::ranges::greater{}, &Reason::grade);
  if (!verdict.reasons.empty()) verdict.grade = verdict.reasons.front().grade;
  return verdict;
}

NodeVerdict verdict_of(const LostNode& lost) {
  const std::string last =
      lost.last.empty() ? "no report, and it was never heard of" : text("no report; it was last heard of at: ", lost.last);
  return verdict_of(lost.host, {{Grade::drain, "lost", last}});
}

}  // namespace

std::string to_string(Grade grade) {
  switch (grade) {
    case Grade::ok: return "ok";
    case Grade::watch: return "watch";
    case Grade::drain: return "drain";
  }
  return "";
}

std::vector<NodeVerdict> judge(const BenchReport& report, const Baselines& learned) {
  const auto around = surroundings_of(report, learned);
  auto network = judge_network(report);
  std::vector<NodeVerdict> verdicts;
  for (const auto& node : report.nodes) {
    Reasons reasons;
    const auto& type = around.types.at(node.type);
    judge_failures(node, reasons);
    judge_core_digests(node, reasons);
    judge_answers(node, type, reasons);
    judge_core_speeds(node, reasons);
    judge_figures(node, around, reasons);
    judge_properties(node, type, reasons);
    judge_memlock(node, reasons);
    judge_clock(node, around, reasons);
    judge_soak(node, reasons);
    judge_company(node, reasons);
    const auto& links = network.nodes[node.host];
    reasons.insert(reasons.end(), links.begin(), links.end());
    verdicts.push_back(verdict_of(node.host, std::move(reasons)));
  }
  for (const auto& lost : report.lost) verdicts.push_back(verdict_of(lost));
  verdicts.insert(verdicts.end(), network.others.begin(), network.others.end());
  return verdicts;
}

std::string drain_line(const NodeVerdict& verdict) {
  std::string reason = "flotilla bench";
  for (const auto& r : verdict.reasons)
    if (r.grade == Grade::drain) reason += ": " + r.what;
  // A shell reads the line within double quotes.
  std::erase_if(reason, [](char c) { return c == '"' || c == '\\' || c == '$' || c == '`' || static_cast<unsigned char>(c) < 0x20; });
  constexpr std::size_t longest = 200;
  if (reason.size() > longest) reason = reason.substr(0, longest - 3) + "...";
  return text("scontrol update NodeName=", verdict.host, " State=DRAIN Reason=\"", reason, "\"");
}

}  // namespace flotilla::bench
