#pragma once
// Private: what agree() and require_same() stand on.
#include <functional>
#include <string>
#include <vector>

#include "flotilla/comm/agree.hpp"

namespace flotilla::comm {

inline constexpr std::size_t longest_word = 2000;  // bytes; fixed, so that receives are posted before anybody comes

/// What the ranks said, by rank, and who said nothing ("" in `words`).
struct Gathered {
  std::vector<std::string> words;
  std::vector<Rank> missing;
};

struct PhaseVerdict {
  bool everyone = true;  // answered
  PhaseOutcome outcome;
};
using Judge = std::function<PhaseVerdict(const Gathered&)>;

/// Every rank brings a word; rank 0 collects until all are there or `deadline` has passed, judges, and tells all. Star-shaped, by messages
/// rather than by a collective of the library, so that the missing can be named; 2 kB per rank at rank 0.
PhaseVerdict rendezvous(const World& world, const std::string& mine, const Judge& judge, Seconds deadline);

/// Throws what the verdict says, if it does.
void enforce(const PhaseVerdict& verdict);

/// "no answer within 10 s from rank 4 on n3 (stopped, dead or cut off?)".
std::string no_answer(const World& world, std::span<const Rank> missing, Seconds deadline);

}  // namespace flotilla::comm
