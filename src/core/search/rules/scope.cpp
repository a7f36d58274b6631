#include "scope.hpp"

#include <algorithm>
#include <numeric>

namespace flotilla::search::rules {
namespace {

using Entries = std::vector<int>;

/// Whether some replicas of two entries can send to each other, or stand side by side in a ring.
bool are_linked(const Problem& p, int x, int y) {
  const Entry &e = p.entries[at(x)], &f = p.entries[at(y)];
  if (p.tables.single_link({e.type, e.zone, 1}, {f.type, f.zone, 1})) return true;
  const auto stands = [](const Kind& kind, int entry) { return std::ranges::find(kind.entries, entry) != kind.entries.end(); };
  for (int k = 0; k < static_cast<int>(p.kinds.size()); ++k)
    for (int o = 0; stands(p.kinds[at(k)], x) && o < static_cast<int>(p.kinds.size()); ++o)
      if (stands(p.kinds[at(o)], y) && p.tables.link(p.at(k, x), p.at(o, y))) return true;
  return false;
}

/// Takes those that links connect with the first, by any way, out of `left`. `lone`: it is the only one, and not linked with itself.
Entries take_connected(const Problem& p, Entries& left, bool& lone) {
  Entries found{left.front()};
  left.erase(left.begin());
  lone = !are_linked(p, found.front(), found.front());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto others = std::stable_partition(left.begin(), left.end(), [&](int e) { return !are_linked(p, found[i], e); });
    found.insert(found.end(), others, left.end());
    left.erase(others, left.end());
  }
  lone = lone && found.size() == 1;
  std::ranges::sort(found);
  return found;
}

std::vector<Entries> by_type(const Problem& p, const Entries& entries) {
  std::vector<Entries> parts;
  for (const int e : entries) {
    const auto of_type =
        std::ranges::find_if(parts, [&](const Entries& part) { return p.entries[at(part.front())].type == p.entries[at(e)].type; });
    (of_type == parts.end() ? parts.emplace_back() : *of_type).push_back(e);
  }
  return parts;
}

}  // namespace

Scope::Scope(const Problem& whole, const std::vector<int>& entries, Use what_for)
    : problem{whole, entries}, links{problem}, rings{problem}, realiser{problem, rings}, use{what_for} {
  for (const int m : problem.sequences) measures.emplace_back(problem, links, m);
}

std::vector<std::unique_ptr<Scope>> scopes_of(const Problem& p) {
  Entries all(p.entries.size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<Entries> parts = p.request.restrictions.one_device_type ? by_type(p, all) : std::vector<Entries>{all};
  std::vector<std::unique_ptr<Scope>> scopes;
  const auto add = [&](const Entries& entries, Scope::Use use) { scopes.push_back(std::make_unique<Scope>(p, entries, use)); };
  const auto add_guesses = [&](const Entries& easy) {
    const auto types = by_type(p, easy);
    for (const Entries& some : types)  // soon searched
      if (types.size() > 1) add(some, Scope::Use::guess_of_type);
    add(easy, Scope::Use::guess);
  };
  Entries lone;
  for (Entries& part : parts) {
    if (p.tiny) add(part, Scope::Use::all);
    while (!p.tiny && !part.empty()) {
      bool is_lone = false;
      const Entries connected = take_connected(p, part, is_lone);
      if (is_lone) {
        lone.push_back(connected.front());
        continue;
      }
      Entries easy = connected;
      std::erase_if(easy, [&](int e) { return !are_linked(p, e, e); });
      if (!easy.empty() && easy.size() < connected.size()) add_guesses(easy);
      add(connected, Scope::Use::all);
    }
  }
  if (!lone.empty()) add(lone, Scope::Use::lone);
  return scopes;
}

}  // namespace flotilla::search::rules
