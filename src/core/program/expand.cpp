#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/program/program.hpp"

namespace flotilla::program {
namespace {

/// Position of each (site, microbatch) in the list; -1 where it does not run.
class Positions {
 public:
  Positions(std::size_t sites, int microbatches)
      : runs_{static_cast<std::size_t>(std::max(1, microbatches))}, at_(sites * runs_, -1), last_(sites, -1) {}
  void set(int site, int microbatch, int position) {
    at_[slot(site, microbatch)] = position;
    last_[static_cast<std::size_t>(site)] = position;
  }
  /// What a wait of a run at `microbatch` names, or -1 when that run does not exist.
  int of(const Wait& wait, int microbatch) const {
    if (wait.lag == last_run) return last_[static_cast<std::size_t>(wait.site)];
    return microbatch < wait.lag ? -1 : at_[slot(wait.site, microbatch - wait.lag)];
  }

 private:
  std::size_t slot(int site, int microbatch) const { return static_cast<std::size_t>(site) * runs_ + static_cast<std::size_t>(microbatch); }
  std::size_t runs_;
  std::vector<int> at_, last_;
};

}  // namespace

std::vector<Instruction> expand(const Program& program, Rank rank) {
  const auto& binding = program.ranks.at(rank.index());
  if (binding.rank_class < 0) return {};
  const auto& c = program.classes.at(static_cast<std::size_t>(binding.rank_class));
  std::vector<Instruction> list;
  Positions positions{c.sites.size(), c.microbatches};
  for (const auto& block : c.blocks)
    for (int i = 0; i < block.repeat; ++i)
      for (const auto& step : block.steps) {
        const auto& site = c.sites.at(static_cast<std::size_t>(step.site));
        Instruction instruction{step.site, site.per_microbatch ? step.microbatch + i : 0, {}};
        if (!site.runs_in(instruction.microbatch)) continue;
        for (const auto& wait : site.waits) {
          const int position = positions.of(wait, instruction.microbatch);
          if (position >= 0) instruction.waits.push_back(position);
        }
        positions.set(step.site, instruction.microbatch, static_cast<int>(list.size()));
        list.push_back(std::move(instruction));
      }
  return list;
}

std::string to_string(Group::Kind kind) {
  switch (kind) {
    case Group::Kind::tensor: return "tensor-parallel";
    case Group::Kind::data: return "data-parallel";
    case Group::Kind::tied: return "tied-embedding";
    case Group::Kind::world: break;
  }
  return "world";
}

}  // namespace flotilla::program
