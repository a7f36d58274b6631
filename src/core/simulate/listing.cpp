#include "listing.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"

namespace flotilla::simulate {
namespace {

using program::Op;
using program::Site;

bool is_collective(Op op) { return op == Op::all_reduce || op == Op::all_gather || op == Op::reduce_scalars; }

class Lister {
 public:
  Lister(const program::RankClass& c, const std::vector<int>& slots)
      : class_{c}, slots_{slots}, runs_{static_cast<std::size_t>(std::max(1, c.microbatches))} {
    at_.assign(c.sites.size() * runs_, -1);
    last_.assign(c.sites.size(), -1);
    sent_.assign(slots.size(), 0);
    received_.assign(slots.size(), 0);
  }

  Listing run() {
    reserve();
    for (const auto& block : class_.blocks)
      for (int i = 0; i < block.repeat; ++i)
        for (const auto& step : block.steps) add(step.site, step.microbatch + i);
    return std::move(out_);
  }

 private:
  void reserve() {
    std::size_t items = 0;
    for (const auto& block : class_.blocks) items += block.steps.size() * static_cast<std::size_t>(std::max(0, block.repeat));
    out_.items.reserve(items);
    out_.wait_ranges.reserve(items);
    out_.waits.reserve(2 * items);
  }

  void add(int s, int microbatch) {
    FLOTILLA_REQUIRE(s >= 0 && s < static_cast<int>(class_.sites.size()), ErrorKind::internal, "a block of the program names site ", s,
                     "; its class has ", class_.sites.size());
    const Site& site = class_.sites[static_cast<std::size_t>(s)];
    if (!site.per_microbatch) microbatch = 0;
    FLOTILLA_REQUIRE(microbatch >= 0 && static_cast<std::size_t>(microbatch) < runs_, ErrorKind::internal, "\"", site.name,
                     "\" of the program runs for microbatch ", microbatch, " of ", class_.microbatches);
    const int position = static_cast<int>(out_.items.size());
    const int first_wait = static_cast<int>(out_.waits.size());
    for (const auto& wait : site.waits) add_wait(site, wait, microbatch);
    out_.items.push_back({s, microbatch, number(site)});
    out_.wait_ranges.push_back({first_wait, static_cast<int>(out_.waits.size())});
    out_.queues[static_cast<std::size_t>(site.queue)].push_back(position);
    at_[static_cast<std::size_t>(s) * runs_ + static_cast<std::size_t>(microbatch)] = position;
    last_[static_cast<std::size_t>(s)] = position;
  }

  void add_wait(const Site& site, const program::Wait& wait, int microbatch) {
    FLOTILLA_REQUIRE(wait.site >= 0 && static_cast<std::size_t>(wait.site) < class_.sites.size(), ErrorKind::internal, "\"", site.name,
                     "\" of the program waits for site ", wait.site, "; its class has ", class_.sites.size());
    const auto target = static_cast<std::size_t>(wait.site);
    int position = -1;
    if (wait.lag == program::last_run)
      position = last_[target];
    else if (wait.lag <= microbatch)
      position = at_[target * runs_ + static_cast<std::size_t>(microbatch - wait.lag)];
    if (position >= 0) out_.waits.push_back(position);
  }

  int number(const Site& site) {
    if (site.op == Op::send || site.op == Op::receive) {
      FLOTILLA_REQUIRE(site.peer >= 0 && static_cast<std::size_t>(site.peer) < slots_.size(), ErrorKind::internal, "\"", site.name,
                       "\" of the program names peer slot ", site.peer, "; its rank has ", slots_.size());
      const auto slot = static_cast<std::size_t>(slots_[static_cast<std::size_t>(site.peer)]);
      return site.op == Op::send ? sent_[slot]++ : received_[slot]++;
    }
    if (!is_collective(site.op)) return 0;
    FLOTILLA_REQUIRE(site.group >= 0, ErrorKind::internal, "\"", site.name, "\" of the program names no group");
    const auto group = static_cast<std::size_t>(site.group);
    if (joined_.size() <= group) joined_.resize(group + 1);
    return joined_[group]++;
  }

  const program::RankClass& class_;
  const std::vector<int>& slots_;
  std::size_t runs_;
  std::vector<int> at_, last_;                 // positions by (site, microbatch); of a site's latest run
  std::vector<int> sent_, received_, joined_;  // how many so far, by folded slot and group slot
  Listing out_;
};

}  // namespace

Listing list_instructions(const program::RankClass& c, const std::vector<int>& slots) { return Lister{c, slots}.run(); }

}  // namespace flotilla::simulate
