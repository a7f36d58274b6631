#include "scope.hpp"

#include <algorithm>
#include <numeric>

namespace flotilla::search::rules {

Scope::Scope(const Problem& whole, const std::vector<int>& entries)
    : problem{whole, entries}, links{problem}, rings{problem}, realiser{problem, rings} {
  for (const int m : problem.sequences) measures.emplace_back(problem, links, m);
}

std::vector<std::unique_ptr<Scope>> scopes_of(const Problem& p) {
  std::vector<std::unique_ptr<Scope>> scopes;
  std::vector<int> entries(p.entries.size());
  std::iota(entries.begin(), entries.end(), 0);
  if (!p.request.restrictions.one_device_type) {
    scopes.push_back(std::make_unique<Scope>(p, entries));
    return scopes;
  }
  for (std::size_t done = 0; done < entries.size();) {
    // Entries of the first type that is left.
    const int type = p.entries[at(entries[done])].type;
    const auto others = std::stable_partition(entries.begin() + static_cast<std::ptrdiff_t>(done), entries.end(),
                                              [&](int e) { return p.entries[at(e)].type == type; });
    scopes.push_back(std::make_unique<Scope>(p, std::vector<int>(entries.begin() + static_cast<std::ptrdiff_t>(done), others)));
    done = at(others - entries.begin());
  }
  return scopes;
}

}  // namespace flotilla::search::rules
