#include "slurm_offers.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "common/refuse.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/nearest.hpp"
#include "flotilla/slurm/script.hpp"

namespace flotilla::app {
namespace {

constexpr double gibibyte = 1024.0 * 1024.0 * 1024.0;

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// Where the site does not say how much a job gets, or by GPUs, Slurm 22.05 gives it all memory of a node, which only an idle one has;
/// where it says so by CPUs, that may be more than a node has. Then the job must ask by number.
bool asks_for_memory(const slurm::Partition& p, const slurm::SlurmNode& node, Bytes asked) {
  if (!p.memory_counts || asked.count > 0) return false;
  if (p.gpu_memory) return true;
  return p.cpu_memory ? p.cpu_memory->count > node.memory.count / std::max(node.cpus, 1) : !p.node_memory;
}

/// GiB that Slurm gives with one device where nothing is asked: what the site says, else the device's part of the node's.
double memory_each(const slurm::Partition& p, const slurm::SlurmNode& node, const NodeDevices& devices, Bytes asked) {
  const double share = std::max(devices.count, 1);
  if (asked.count > 0) return static_cast<double>(asked.count) / gibibyte / share;
  if (p.gpu_memory && !devices.gres.empty()) return static_cast<double>(p.gpu_memory->count) / gibibyte;
  if (asks_for_memory(p, node, asked))
    return static_cast<double>(slurm::memory_for(p, node, devices.cpus_each * devices.count).count) / gibibyte / share;
  if (p.cpu_memory) return static_cast<double>(p.cpu_memory->count) / gibibyte * devices.cpus_each;
  return static_cast<double>((p.node_memory ? *p.node_memory : node.memory).count) / gibibyte / share;
}

/// Whether what counts "gpu" or "gpu:a100" counts the gres, too. Slurm compares these names without case; limits and weights are read so.
bool is_part_of(const std::string& name, std::string gres) {
  std::ranges::transform(gres, gres.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name == gres || gres.starts_with(name + ":");
}

double units_per_hour(const slurm::SlurmCluster& slurm_cluster, const slurm::Partition& p, const slurm::SlurmNode& node,
                      const NodeDevices& devices, Bytes asked) {
  const auto& w = p.weights;
  double gres = 0;
  for (const auto& [name, weight] : w.gres)
    if (is_part_of(name, devices.gres)) gres += weight;
  const double cpu = w.cpu * devices.cpus_each, memory = w.gibibyte * memory_each(p, node, devices, asked);
  const double of_node = w.node / std::max(devices.count, 1);
  return slurm_cluster.largest_counts ? std::max({gres, cpu, memory}) + of_node : gres + cpu + memory + of_node;
}

/// Devices of a node that this much memory is enough for. What comes with a GPU is counted by Slurm whatever a job asks for.
int with_memory(Bytes memory, const slurm::Partition& p, const slurm::SlurmNode& node, const NodeDevices& devices, Bytes asked) {
  if (!p.memory_counts) return devices.count;
  const double has = static_cast<double>(memory.count) / gibibyte, each = memory_each(p, node, devices, asked);
  const bool by_node = asked.count > 0 || (p.node_memory && !p.cpu_memory && !p.gpu_memory);
  if (by_node && each * std::max(devices.count, 1) > has) return 0;
  const double least = p.gpu_memory ? static_cast<double>(p.gpu_memory->count) / gibibyte : by_node ? 0 : each;
  return least > 0 ? static_cast<int>(std::min<double>(has / least, devices.count)) : devices.count;
}

/// Devices of a node that a job may have.
int available(const slurm::SlurmNode& node, const NodeDevices& devices, const slurm::Partition& p, const SubmitSettings& s) {
  if (!node.usable) return 0;
  const int cpus = slurm::cpus_for(p, node);
  const int each = (devices.cpus_each + node.threads - 1) / node.threads * node.threads, by_cpus = each > 0 ? cpus / each : devices.count;
  const int most = std::min(by_cpus, with_memory(slurm::memory_for(p, node, cpus), p, node, devices, s.memory));
  if (s.wait || node.idle) return std::min(devices.count, most);
  if (!node.shared || p.exclusive) return 0;
  const int with_free = with_memory(node.idle_memory, p, node, devices, s.memory);
  return std::clamp(std::min({devices.count - devices.used, node.idle_cpus / each, with_free}), 0, most);
}

/// A whole node has all of its CPUs, too: more than a partition with a limit gives of it.
bool may_be_whole(const slurm::Partition& p, const slurm::SlurmNode& node) { return slurm::cpus_for(p, node) == node.cpus; }

bool has_gpus(const slurm::SlurmNode& node) {
  return std::ranges::any_of(node.gres, [](const auto& gres) { return gres.name == "gpu" && gres.count > 0; });
}

/// A node of a kind.
struct NodeOfKind {
  int available = 0, count = 0;  ///< devices that are to be had, of those that it has
  bool alone = false;            ///< no other job is on it, and it has no other devices
};

/// Nodes alike in what a job asks of them.
struct Kind {
  NodeDevices devices;
  std::vector<NodeOfKind> nodes;
  double units = 0;
  double memory = 0;  ///< GiB to ask for with a device; 0: what the site gives is right
};

/// Nodes of a partition that nothing can be had of now, by why.
struct NodeCounts {
  int broken = 0, booting = 0, kept = 0, short_of_cpus = 0, short_of_memory = 0, idle_cpus = 0;
  std::set<std::string> keepers;
  std::string type;

  void count(const slurm::SlurmNode& node, const NodeDevices& devices, const slurm::Partition& p) {
    if (!node.usable) {
      ++broken;
    } else if (node.booting) {
      ++booting;
    } else if ((node.idle || (node.shared && !p.exclusive)) && devices.used < devices.count) {
      ++(node.idle_cpus < devices.cpus_each ? short_of_cpus : short_of_memory);
      idle_cpus = std::max(idle_cpus, node.idle_cpus);
      type = devices.type;
    }
  }

  std::vector<std::string> in_words(const std::string& partition) const {
    std::vector<std::string> notes;
    const auto say = [&](int nodes, const char* one, const char* more, const std::string& what) {
      if (nodes > 0) notes.push_back(text("partition ", partition, ": ", nodes, nodes == 1 ? one : more, what));
    };
    say(broken, " node is", " nodes are", " down, drained, reserved or failing");
    say(booting, " node is", " nodes are", " starting: --submit.wait counts what starts");
    std::string names;
    for (const auto& name : keepers) names += (names.empty() ? "" : ", ") + name;
    say(kept, " free node is", " free nodes are", text(" kept for a reservation (", names, ") that the job would meet"));
    const auto hint = idle_cpus > 0 ? text(" (", idle_cpus, " are): --submit.cpus-per-task ", idle_cpus, " asks for fewer") : "";
    say(short_of_cpus, " node has", " nodes have", text(" free ", type, " but not as many free CPUs as they are given", hint));
    say(short_of_memory, " node has", " nodes have",
        text(" free ", type, " but not as much free memory as they are given: --submit.memory asks for less of a node"));
    return notes;
  }
};

/// So many of each node that most are had together: "4 of each of 3 nodes" goes before "1 of each of 10". Of equals the more.
std::pair<int, int> best_share(const std::vector<NodeOfKind>& all) {
  std::pair<int, int> best{0, 0};  // devices of a node, nodes
  std::set<int> sizes;
  for (const auto& node : all) sizes.insert(node.available);
  for (int each : sizes) {
    const int nodes = static_cast<int>(std::ranges::count_if(all, [&](const auto& node) { return node.available >= each; }));
    if (each > 0 && each * nodes >= best.first * best.second) best = {each, nodes};
  }
  return best;
}

class Collector {
 public:
  Collector(const slurm::SlurmCluster& slurm_cluster, const SubmitOptions& o, DeviceNames& names)
      : slurm_cluster_{slurm_cluster}, o_{o}, s_{o.submit}, names_{names}, devices_{o, names}, taken_(slurm_cluster.nodes.size(), false) {
    std::unordered_map<std::string_view, std::size_t> places;
    for (std::size_t n = 0; n < slurm_cluster.nodes.size(); ++n) places.emplace(slurm_cluster.nodes[n].name, n);
    for (const auto& r : slurm_cluster.reservations)
      for (const auto& name : r.nodes)
        if (const auto place = places.find(name); place != places.end()) reserved_[place->second].push_back(&r);
  }

  SlurmOffers collect() {
    for (const auto* partition : in_order()) look_at(*partition);
    leave_out_untrainable();
    share_limits();
    level_nodes();
    for (const auto& words : devices_.notes()) offers_.notes.push_back(words);
    offers_.only_unknown = unknown_ && !known_;
    return std::move(offers_);
  }

 private:
  void note(const std::string& words) { offers_.notes.push_back(words); }

  std::vector<const slurm::Partition*> in_order() {
    std::vector<const slurm::Partition*> order;
    std::vector<std::string> names;
    for (const auto& p : slurm_cluster_.partitions) names.push_back(p.name);
    for (const auto& name : s_.partitions) {
      const auto at = std::ranges::find(names, name);
      if (at == names.end())
        refuse(o_.planning.setting("submit.partitions"), name,
               text("the site has no such partition, or you may not use it", suggestion(name, names)));
      order.push_back(&slurm_cluster_.partitions[static_cast<std::size_t>(at - names.begin())]);
    }
    if (!order.empty()) return order;
    for (const auto& p : slurm_cluster_.partitions) order.push_back(&p);
    std::ranges::stable_sort(order, [&](const auto* a, const auto* b) {
      // A partition of a higher tier preempts the jobs of others: not what somebody gets who did not ask for it.
      return std::tuple(price(*a), a->tier, a->preemptible()) < std::tuple(price(*b), b->tier, b->preemptible());
    });
    return order;
  }

  /// Of the partition's first node with devices; to tell partitions apart that share nodes.
  double price(const slurm::Partition& p) {
    if (!why_not(p).empty()) return 0;  // nor is anything noted of its devices
    for (const auto n : p.nodes)
      if (const auto devices = devices_.of(slurm_cluster_.nodes[n], p))
        return units_per_hour(slurm_cluster_, p, slurm_cluster_.nodes[n], *devices, s_.memory);
    return 0;
  }

  /// Why no job of ours may use it; "" where it may.
  std::string why_not(const slurm::Partition& p) const {
    if (!p.open) return "it accepts no jobs now";
    if (p.limit && s_.time > *p.limit) return text("its time limit is ", *p.limit, ", the job asks for ", s_.time);
    if (const auto most = limits_of(p).job.time; most && s_.time > *most)
      return text("your account or QOS lets a job run for ", *most, ", the job asks for ", s_.time);
    if (const auto closed = slurm::why_closed(slurm_cluster_, p, s_.account, s_.qos, host_); !closed.empty()) return closed;
    if (!slurm::is_plain(p.name)) return "its name cannot be used in a batch script";
    return "";
  }

  slurm::JobLimits limits_of(const slurm::Partition& p) const { return slurm::limits_for(slurm_cluster_, p, s_.account, s_.qos); }

  /// A reservation that a job starting now would meet on this node; those who can wait may have the node once it is over.
  const slurm::Reservation* reservation_of(std::size_t node, const slurm::Partition& p) const {
    const auto length = s_.time.value > 0 ? std::optional{s_.time} : p.standard_time ? p.standard_time : p.limit;
    const auto its = reserved_.find(node);
    if (its == reserved_.end()) return nullptr;
    for (const auto* r : its->second)
      if ((r->active || !s_.wait) && r->meets(slurm_cluster_.time, length)) return r;
    return nullptr;
  }

  void look_at(const slurm::Partition& p) {
    if (const auto why = why_not(p); !why.empty())
      return note(text("partition ", slurm::is_plain(p.name) ? p.name : "'?'", " is left out: ", why));
    std::map<std::tuple<std::string, std::string, std::string>, Kind> kinds;
    NodeCounts out;
    for (const auto n : p.nodes) {
      const auto& node = slurm_cluster_.nodes[n];
      const auto devices = devices_.of(node, p);
      known_ = known_ || devices;
      unknown_ = unknown_ || (!devices && has_gpus(node));
      if (!devices || taken_[n]) continue;
      const int has = available(node, *devices, p, s_);
      if (has == 0) {
        out.count(node, *devices, p);
        continue;
      }
      if (const auto* reservation = reservation_of(n, p)) {
        ++out.kept;
        out.keepers.insert(slurm::is_plain(reservation->name) ? reservation->name : "?");
        continue;
      }
      taken_[n] = true;
      auto& kind = kinds[{devices->type, devices->gres, devices->constraint}];
      if (kind.nodes.empty()) kind = {*devices, {}, units_per_hour(slurm_cluster_, p, node, *devices, s_.memory), 0};
      if (asks_for_memory(p, node, s_.memory)) {
        const double each = memory_each(p, node, *devices, s_.memory);
        kind.memory = kind.memory > 0 ? std::min(kind.memory, each) : each;
      }
      kind.devices.cpus_each = std::min(kind.devices.cpus_each, devices->cpus_each);
      kind.nodes.push_back({has, devices->count, devices->all && may_be_whole(p, node) && (node.idle || s_.wait)});
    }
    for (const auto& words : out.in_words(p.name)) note(words);
    for (const auto& [key, kind] : kinds) offer(p, kind);
  }

  void offer(const slurm::Partition& p, const Kind& kind) {
    auto [per_node, found] = best_share(kind.nodes);
    const bool whole = std::ranges::all_of(
        kind.nodes, [&, each = per_node](const NodeOfKind& node) { return node.available < each || (node.alone && node.count == each); });
    int nodes = std::min(found, p.most_nodes.value_or(found));
    const int share = per_node;
    const auto limits = limits_of(p);
    if (fit(limits.job, kind.devices, {}, per_node, nodes))
      note(text("partition ", p.name, ": what your account or QOS lets a job have: ", nodes, nodes == 1 ? " node with " : " nodes with ",
                per_node, " ", kind.devices.type, " each"));
    if (per_node == 0 || nodes < std::max(p.fewest_nodes, 1)) return;
    const auto& d = kind.devices;
    if (!slurm::is_plain(d.gres + "x") || (!d.constraint.empty() && !slurm::is_plain(d.constraint)))
      return note(text("partition ", p.name, ": names of its gres or features cannot be used in a batch script"));
    const int rest = static_cast<int>(kind.nodes.size()) - nodes;
    if (rest > 0)
      note(text("partition ", p.name, ": ", rest, rest == 1 ? " node" : " nodes", " with ", d.type, " left out: ", per_node,
                per_node == 1 ? " device" : " devices", " of a node asked for, or no more nodes may be"));
    // Plans tell places apart by type and partition: of two gres that mean the same type there the one with more devices counts.
    SlurmOffer offer{p.name,
                     d.type,
                     d.gres,
                     d.constraint,
                     nodes,
                     per_node,
                     d.cpus_each,
                     std::max(p.fewest_nodes, 1),
                     {static_cast<std::int64_t>(kind.memory * gibibyte)},
                     whole && per_node == share,
                     kind.units,
                     p.limit ? to_string(*p.limit) : "none",
                     p.preemptible() ? p.preemption : "none"};
    const auto same =
        std::ranges::find_if(offers_.all, [&](const auto& other) { return other.partition == p.name && other.type == d.type; });
    if (same == offers_.all.end()) return offers_.all.push_back(offer);
    const auto& less = offer.devices() > same->devices() ? *same : offer;
    note(text("partition ", p.name, ": ", less.devices(), " ", d.type, " left out, requested under another name: ", less.gres,
              less.constraint.empty() ? "" : " with feature ", less.constraint));
    if (offer.devices() > same->devices()) *same = offer;
  }

  /// Training is for CPUs and NVIDIA GPUs. Where a site has nothing else, what a plan would cost is still told.
  void leave_out_untrainable() {
    const auto cannot = [&](const SlurmOffer& offer) { return !names_.is_trainable(offer.type); };
    const bool some = std::ranges::any_of(offers_.all, cannot), all = std::ranges::all_of(offers_.all, cannot);
    if (!some) return;
    std::set<std::string> types;
    for (const auto& offer : offers_.all)
      if (cannot(offer)) types.insert(offer.type);
    for (const auto& type : types)
      note(text(type, all ? ": only planned over, nothing is sent: " : " left out: ", "Flotilla trains on CPUs and NVIDIA GPUs"));
    if (!all) std::erase_if(offers_.all, cannot);
  }

  /// What is taken already, of what limits count.
  struct OfferSum {
    int nodes = 0, cpus = 0;
    std::map<std::string, int> gres;
  };

  /// Makes less of nodes and devices where a limit asks for it; whether it does.
  static bool fit(const slurm::SlurmLimits& limits, const NodeDevices& d, const OfferSum& taken, int& per_node, int& nodes) {
    const auto before = std::pair{per_node, nodes};
    if (limits.nodes) nodes = std::min(nodes, std::max(*limits.nodes - taken.nodes, 0));
    const auto at_most = [&](int devices) {
      per_node = std::min(per_node, std::max(devices, 0));
      nodes = per_node == 0 ? 0 : std::min(nodes, devices / per_node);
    };
    if (limits.cpus && d.cpus_each > 0) at_most((*limits.cpus - taken.cpus) / d.cpus_each);
    for (const auto& [name, most] : limits.gres)
      if (is_part_of(name, d.gres)) {
        const auto used = taken.gres.find(name);
        at_most(most - (used == taken.gres.end() ? 0 : used->second));
      }
    return before != std::pair{per_node, nodes};
  }

  /// What all jobs of the account may have together bounds the components together, in their order.
  void share_limits() {
    OfferSum taken;
    std::erase_if(offers_.all, [&](SlurmOffer& offer) {
      const auto p = std::ranges::find(slurm_cluster_.partitions, offer.partition, &slurm::Partition::name);
      const auto all = limits_of(*p).all;
      const NodeDevices d{offer.type, offer.gres, offer.constraint, offer.per_node, 0, offer.cpus_each};
      const int before = offer.per_node;
      if (fit(all, d, taken, offer.per_node, offer.nodes))
        note(text("partition ", offer.partition, ": what your account or QOS leaves: ", offer.nodes,
                  offer.nodes == 1 ? " node with " : " nodes with ", offer.per_node, " ", offer.type, " each"));
      offer.whole = offer.whole && offer.per_node == before;
      taken.nodes += offer.nodes;
      taken.cpus += offer.devices() * offer.cpus_each;
      for (const auto& [name, most] : all.gres)
        if (is_part_of(name, d.gres)) taken.gres[name] += offer.devices();
      return offer.devices() == 0;
    });
  }

  /// A plan knows one node size of a type: the largest that still has four fifths of the devices. What has less on a node is left out.
  void level_nodes() {
    std::map<std::string, std::set<int>> sizes;
    for (const auto& offer : offers_.all) sizes[offer.type].insert(offer.per_node);
    for (const auto& [type, each] : sizes) {
      const auto had = [&, t = type](int size) {
        int devices = 0;
        for (const auto& offer : offers_.all)
          if (offer.type == t) devices += offer.nodes * (offer.per_node / size) * size;
        return devices;
      };
      int most = 0, size = *each.begin();
      for (int s : each) most = std::max(most, had(s));
      for (int s : each)
        if (5 * had(s) >= 4 * most) size = s;
      std::erase_if(offers_.all, [&, t = type](const SlurmOffer& offer) {
        const bool less = offer.type == t && offer.per_node < size;
        if (less)
          note(text("partition ", offer.partition, ": ", offer.nodes, offer.nodes == 1 ? " node" : " nodes", " with ", offer.per_node,
                    " free ", t, " each left out: elsewhere ", size, " of a node are had"));
        return less;
      });
      for (auto& offer : offers_.all)
        if (offer.type == type && offer.per_node % size != 0) offer.per_node -= offer.per_node % size, offer.whole = false;
    }
  }

  const slurm::SlurmCluster& slurm_cluster_;
  const SubmitOptions& o_;
  const SubmitSettings& s_;
  DeviceNames& names_;
  SlurmDevices devices_;
  std::string host_ = host_name();
  std::map<std::size_t, std::vector<const slurm::Reservation*>> reserved_;  ///< by node
  std::vector<bool> taken_;
  bool known_ = false, unknown_ = false;  ///< nodes whose devices are types of plans, and nodes with others
  SlurmOffers offers_;
};

std::string sentence_of(const std::vector<std::string>& notes) {
  std::string words;
  for (std::size_t n = 0; n < std::min<std::size_t>(notes.size(), 3); ++n) words += "; " + notes[n];
  return words;
}

}  // namespace

SlurmOffers offers_of(const slurm::SlurmCluster& slurm_cluster, const SubmitOptions& o, DeviceNames& names) {
  auto offers = Collector{slurm_cluster, o, names}.collect();
  const bool gpus = std::ranges::any_of(slurm_cluster.nodes, has_gpus);
  FLOTILLA_REQUIRE(!offers.all.empty() || gpus || !o.submit.device_types.empty() || slurm_cluster.partitions.empty(),
                   ErrorKind::unavailable, "the site has no GPUs; --submit.device-types partition:",
                   slurm::is_plain(slurm_cluster.partitions.front().name) ? slurm_cluster.partitions.front().name : "NAME",
                   "=CPU --submit.cpus-per-task N plans over CPUs", sentence_of(offers.notes));
  FLOTILLA_REQUIRE(!offers.only_unknown, ErrorKind::unavailable, "the site has no whole devices of types that plans know",
                   sentence_of(offers.notes));
  FLOTILLA_REQUIRE(!offers.all.empty(), ErrorKind::unavailable,
                   o.submit.wait ? "the site has no devices that a job may use" : "no device is free now",
                   o.submit.wait ? "" : "; --submit.wait plans over what is busy too", sentence_of(offers.notes));
  return offers;
}

Offer offer_of(const std::vector<SlurmOffer>& all) {
  Offer offer;
  for (const auto& one : all) {
    offer.pool.push_back({one.type, one.partition, one.devices(), one.per_node});
    if (one.units_per_hour > 0) offer.billing[{one.type, one.partition}] = one.units_per_hour;
  }
  return offer;
}

}  // namespace flotilla::app
