#pragma once
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/simulate/instruction_cost.hpp"

namespace flotilla::simulate {

/// How messages go from one device to another: over a link that was fitted piece by piece, or by published fits for several numbers of
/// devices at once.
struct Route {
  const cluster::Link* link = nullptr;
  std::vector<const cluster::LinkFit*> fits;  ///< by from_count, ascending; empty where `link` holds
  bool inside_host = false;
  cluster::CopyRate from_device{}, to_device{};  ///< where an end is a GPU: to its host's memory, and from there to the other end's
  BytesPerSecond out{}, in{};  ///< of the uplinks by which it leaves a zone and enters another; 0: it holds nobody up there

  /// One of `flows` equal messages that move at the same time. Between hosts, more flows than lanes share what the bytes take (Link); fits
  /// say what a number of flows gets together. Inside a host pairs of devices have their own paths, unless fits say otherwise. Flows
  /// through an uplink share that; one alone takes what its link was measured to take, at the rate of large messages.
  Seconds time(Bytes, const Flows& flows) const;
  /// From the sender's device to its host's memory and from the receiver's host's to its device, before and after that.
  Seconds copies(Bytes size) const { return from_device.time(size) + to_device.time(size); }
  /// Half a sum of our runtime (cluster::Link::sum_pieces) as one of so many through the cards; only where measures_sums().
  Seconds sum_time(Bytes, int through_cards) const;
  bool measures_sums() const { return link != nullptr && !link->sum_pieces.empty(); }
  double relative_scatter() const;
  int lanes() const;
  bool passes_uplinks() const { return out.value > 0 || in.value > 0; }
  bool operator==(const Route&) const = default;

 private:
  Seconds over_cards(Bytes, int flows) const;
  Seconds over_uplinks(Bytes, const Flows&) const;
  Seconds sustained(const std::vector<cluster::LinkPiece>&, Seconds alone, Seconds latency, Bytes) const;
  Seconds shared(Seconds alone, Seconds latency, int flows) const;
};

/// Published fits, found by the types that they join, and what a profile names. Holds on to the profile's.
class FitsByTypes {
 public:
  explicit FitsByTypes(const cluster::Profile&);
  /// For messages from `a` to `b`, by number of devices: of their zones and types, either way round, else of their types in any one zone.
  /// Empty where there are none.
  std::vector<const cluster::LinkFit*> between(const cluster::Device& a, const cluster::Device& b) const;
  /// Whether a fit, a link or a copy that was measured is of that type, host or zone.
  bool knows(const std::string& name) const { return named_.contains(name); }

 private:
  /// Two types, the lesser name first, inside a node or between nodes.
  using Ends = std::tuple<std::string_view, std::string_view, bool>;
  static Ends ends_of(const std::string& a, const std::string& b, bool inside_node);
  std::map<Ends, std::vector<const cluster::LinkFit*>> fits_;
  std::set<std::string_view> named_;
};

/// One of `flows` messages of that size, by the fit: bytes outside the range that was fitted take what its nearer end takes in rate (large)
/// or in time (small).
Seconds fitted_time(const cluster::LinkFit&, Bytes, int flows);

}  // namespace flotilla::simulate
