#pragma once
#include <span>
#include <string>
#include <vector>

#include "flotilla/base/ids.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/mpi/communicator.hpp"

namespace flotilla::comm {

/// Every rank of the job, where it runs, and the channels it talks on: each user of the network has a duplicated communicator of its own,
/// so that their traffic and their threads cannot meet.
class World {
 public:
  /// Collective. Throws Error{communication} when some rank does not come within `deadline`.
  World(const mpi::Communicator& all, Seconds deadline);

  Rank rank() const noexcept { return Rank{messages_.rank()}; }
  int size() const noexcept { return messages_.size(); }
  const std::string& host(Rank r) const { return hosts_.at(r.index()); }
  /// "rank 3 on n2".
  std::string name(Rank) const;
  /// "rank 3 on n2, rank 4 on n2 and 5 more": at most `most` are named.
  std::string names(std::span<const Rank>, std::size_t most = 4) const;
  /// Ranks on this rank's host, in order; this rank is among them.
  std::vector<Rank> neighbours() const;
  /// Largest tag that every rank's MPI takes.
  int largest_tag() const noexcept { return largest_tag_; }

  /// Point-to-point messages of the program (send and receive queues).
  const mpi::Communicator& messages() const noexcept { return messages_; }
  /// The groups' collectives (reduce queue).
  const mpi::Communicator& reduce() const noexcept { return reduce_; }
  /// agree(), require_same() and what else the main thread exchanges.
  const mpi::Communicator& control() const noexcept { return control_; }
  /// The watch thread's.
  const mpi::Communicator& watch() const noexcept { return watch_; }

  /// Number of the next agreement on this rank; the same on all when they agree in the same order.
  int next_agreement() const noexcept { return agreements_++; }

 private:
  mpi::Communicator messages_, reduce_, control_, watch_;
  std::vector<std::string> hosts_;
  int largest_tag_ = 0;
  mutable int agreements_ = 0;
};

}  // namespace flotilla::comm
