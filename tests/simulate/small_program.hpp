#pragma once
#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "fake_cost.hpp"
#include "flotilla/simulate/forecast.hpp"

/// Programs written by hand.
namespace flotilla::fixture {

using program::Op;
using program::Program;
using program::Queue;
using program::RankClass;
using program::Site;
using simulate::Forecast;
using simulate::Span;

inline Site compute(const std::string& name, std::vector<program::Wait> waits = {}) {
  Site site;
  site.name = name;
  site.waits = std::move(waits);
  return site;
}
inline Site message(const std::string& name, Op op, int peer, std::vector<program::Wait> waits = {}) {
  Site site = compute(name, std::move(waits));
  site.op = op;
  site.queue = op == Op::send ? Queue::send : Queue::receive;
  site.peer = peer;
  site.channel = 0;
  site.bytes_per_sequence = {100};
  return site;
}
inline Site sum(const std::string& name, int group, std::vector<program::Wait> waits = {}) {
  Site site = compute(name, std::move(waits));
  site.op = Op::all_reduce;
  site.queue = Queue::reduce;
  site.group = group;
  site.bytes_per_sequence = {64};
  return site;
}

/// Every site once per microbatch, in the order given.
inline RankClass rank_class(std::vector<Site> sites, int microbatches = 1) {
  RankClass c;
  c.microbatches = microbatches;
  c.last_sequences = 1;
  c.sites = std::move(sites);
  program::Block block{microbatches, {}};
  for (std::size_t s = 0; s < c.sites.size(); ++s) block.steps.push_back({static_cast<int>(s), 0});
  c.blocks = {block};
  return c;
}

inline void add_rank(Program& p, RankClass c, std::vector<int> peers = {}, std::vector<int> groups = {}) {
  program::RankBinding binding;
  binding.rank_class = static_cast<int>(p.classes.size());
  for (int peer : peers) binding.peers.push_back(Rank{peer});
  binding.groups = std::move(groups);
  p.classes.push_back(std::move(c));
  p.ranks.push_back(std::move(binding));
}

inline FakeCost seconds_by_name() {
  FakeCost cost;  // "3" takes three seconds
  cost.compute_seconds = [](const Site& site, int) { return std::stod(site.name); };
  return cost;
}

inline const Span& span_of(const Forecast& forecast, int rank, const std::string& name, int microbatch = 0) {
  const auto found = std::ranges::find_if(
      forecast.timeline, [&](const Span& s) { return s.rank == Rank{rank} && s.name == name && s.microbatch == microbatch; });
  if (found == forecast.timeline.end()) throw std::runtime_error{"no span " + name};
  return *found;
}

/// On the compute queue, which stands still until the message has moved.
inline Site blocking(const std::string& name, Op op, int peer, int channel = 0) {
  Site site = message(name, op, peer);
  site.queue = Queue::compute;
  site.channel = channel;
  return site;
}

}  // namespace flotilla::fixture
