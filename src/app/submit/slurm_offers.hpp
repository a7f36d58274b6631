#pragma once
#include <string>
#include <vector>

#include "common/planning_task.hpp"
#include "slurm_devices.hpp"

namespace flotilla::app {

/// Nodes of one kind that one partition has for a job.
struct SlurmOffer {
  std::string partition;
  std::string type, gres, constraint;  ///< as NodeDevices
  int nodes = 0;
  int per_node = 0;  ///< devices to take of each
  int cpus_each = 1;
  int fewest_nodes = 1;       ///< that the partition gives a job
  Bytes memory_each{};        ///< to ask for with a device; 0: what the site gives with it is right
  bool whole = false;         ///< these are all devices of its nodes, and nothing else runs there: nodes can be asked for whole
  double units_per_hour = 0;  ///< billed for one device with its CPUs and memory; 0: the site bills nothing
  std::string time_limit;     ///< for people
  std::string preemption;
  int devices() const { return nodes * per_node; }
};

struct SlurmOffers {
  std::vector<SlurmOffer> all;
  std::vector<std::string> notes;  ///< what was left out or guessed, and what to write
  bool only_unknown = false;       ///< nodes have devices, and none of a type that plans know
};

/// What a job may ask for: of every open partition that lets it run long enough (those that the options name), what is free now or, with
/// submit.wait, what works at all. A node counts once, for the partition named first or else the
/// cheapest, of those the one of the lowest tier. Of a partition's nodes with one type,
/// so many devices are taken of each that most are had together. Throws Error{usage, bad_input} for partitions that are not there, and
/// Error{unavailable} where nothing is to be had.
SlurmOffers offers_of(const slurm::SlurmCluster&, const SubmitOptions&, DeviceNames&);

/// The same for the planner: a partition is a zone.
Offer offer_of(const std::vector<SlurmOffer>&);

}  // namespace flotilla::app
