#include "subproblem.hpp"

#include <algorithm>
#include <numeric>

namespace flotilla::search::rules {
namespace {

using Entries = std::vector<int>;

/// Whether some replicas of two entries can send to each other, or stand side by side in a ring.
bool are_linked(const FormulaProblem& p, int x, int y) {
  const PoolSlot &e = p.entries[at(x)], &f = p.entries[at(y)];
  if (p.tables.single_link({e.type, e.zone, 1}, {f.type, f.zone, 1})) return true;
  const auto stands = [](const ReplicaKind& kind, int entry) { return std::ranges::find(kind.entries, entry) != kind.entries.end(); };
  for (int k = 0; k < static_cast<int>(p.kinds.size()); ++k)
    for (int o = 0; stands(p.kinds[at(k)], x) && o < static_cast<int>(p.kinds.size()); ++o)
      if (stands(p.kinds[at(o)], y) && p.tables.link(p.at(k, x), p.at(o, y))) return true;
  return false;
}

/// Takes those that links connect with the first, by any way, out of `left`. `isolated`: it is the only one, and not linked with itself.
Entries take_connected(const FormulaProblem& p, Entries& left, bool& isolated) {
  Entries found{left.front()};
  left.erase(left.begin());
  isolated = !are_linked(p, found.front(), found.front());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto others = std::stable_partition(left.begin(), left.end(), [&](int e) { return !are_linked(p, found[i], e); });
    found.insert(found.end(), others, left.end());
    left.erase(others, left.end());
  }
  isolated = isolated && found.size() == 1;
  std::ranges::sort(found);
  return found;
}

std::vector<Entries> by_type(const FormulaProblem& p, const Entries& entries) {
  std::vector<Entries> parts;
  for (const int e : entries) {
    const auto of_type =
        std::ranges::find_if(parts, [&](const Entries& part) { return p.entries[at(part.front())].type == p.entries[at(e)].type; });
    (of_type == parts.end() ? parts.emplace_back() : *of_type).push_back(e);
  }
  return parts;
}

}  // namespace

Subproblem::Subproblem(const FormulaProblem& whole, const std::vector<int>& entries, Use what_for)
    : problem{whole, entries}, links{problem}, rings{problem}, zone_assigner{problem, rings}, use{what_for} {
  for (const int m : problem.sequences) measures.emplace_back(problem, links, m);
}

std::vector<std::unique_ptr<Subproblem>> subproblems_of(const FormulaProblem& p) {
  Entries all(p.entries.size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<Entries> parts = p.request.restrictions.one_device_type ? by_type(p, all) : std::vector<Entries>{all};
  std::vector<std::unique_ptr<Subproblem>> subproblems;
  const auto add = [&](const Entries& entries, Subproblem::Use use) {
    subproblems.push_back(std::make_unique<Subproblem>(p, entries, use));
  };
  const auto add_guesses = [&](const Entries& easy) {
    const auto types = by_type(p, easy);
    for (const Entries& some : types)  // soon searched
      if (types.size() > 1) add(some, Subproblem::Use::heuristic_of_type);
    add(easy, Subproblem::Use::heuristic);
  };
  Entries isolated;
  for (Entries& part : parts) {
    if (p.tiny) add(part, Subproblem::Use::all);
    while (!p.tiny && !part.empty()) {
      bool is_lone = false;
      const Entries connected = take_connected(p, part, is_lone);
      if (is_lone) {
        isolated.push_back(connected.front());
        continue;
      }
      Entries easy = connected;
      std::erase_if(easy, [&](int e) { return !are_linked(p, e, e); });
      if (!easy.empty() && easy.size() < connected.size()) add_guesses(easy);
      add(connected, Subproblem::Use::all);
    }
  }
  if (!isolated.empty()) add(isolated, Subproblem::Use::isolated);
  return subproblems;
}

}  // namespace flotilla::search::rules
