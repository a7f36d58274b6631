#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "flotilla/base/element_type.hpp"
#include "flotilla/base/ids.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/comm/persistent_operation.hpp"
#include "flotilla/program/collectives.hpp"
#include "flotilla/program/program.hpp"

namespace flotilla::comm {

/// What an all-reduce of `size` bytes needs beside the data.
constexpr Bytes all_reduce_staging(Bytes size, ElementType type, int members) {
  return program::all_reduce_staging(size, element_size(type), members);
}

/// Likewise a reduce-scatter, whose pieces are of whole units (tokens).
constexpr Bytes reduce_scatter_staging(Bytes size, Bytes unit, int members) {
  return program::reduce_scatter_staging(size.count / unit.count, unit, members);
}

/// An ordered set of ranks that reduce together. Backends: local (one member) and MPI. Members make the same operations in the same
/// order; started operations may finish in any order, and members may start them in any order.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  const program::Group& value() const noexcept { return value_; }
  const std::vector<Rank>& members() const noexcept { return value_.members; }
  int size() const noexcept { return static_cast<int>(value_.members.size()); }
  /// This rank's position among the members.
  int index() const noexcept { return index_; }
  /// "data group of rank 0 on n1, rank 2 on n2".
  virtual std::string describe() const = 0;

  /// Element-wise sum, in place. Piece j of the elements (program::piece) is summed by member j, contributions added in member order;
  /// bf16 and fp16 are added in fp32 and rounded once. So the bits depend on the members' order and nothing else. `staging` holds at least
  /// all_reduce_staging(capacity, ...) bytes; both pointers are aligned for the type and outlive the operation. start(size) takes
  /// a multiple of the element. A group with subgroups sums in them (program/hierarchical_all_reduce.hpp): the bits depend on these, too,
  /// these are rounded at every level, and `staging` holds program::sum_staging() bytes.
  virtual std::unique_ptr<PersistentOperation> make_all_reduce(std::byte* data, ElementType, Bytes capacity, std::byte* staging,
                                                               Bytes staging_size) = 0;

  /// Element-wise sum of which member j gets piece j of the units at `data` (program::piece), in place; what else stands there stays as it
  /// was. `unit` is a multiple of the element, pieces may be empty; each element has the bits that make_all_reduce would give it.
  /// `staging` holds at least reduce_scatter_staging(capacity, ...) bytes. start(size) takes a multiple of `unit`.
  virtual std::unique_ptr<PersistentOperation> make_reduce_scatter(std::byte* data, ElementType, Bytes unit, Bytes capacity,
                                                                   std::byte* staging, Bytes staging_size) = 0;
  /// The two halves of a sum as program/hierarchical_all_reduce.hpp states it, with subgroups or without: after the first every member has
  /// the sum of its share (program::share_of), and anything in the rest of `data`; the second takes everybody's share to all. `staging`
  /// holds program::sum_staging() bytes. start(size): all the elements that are summed, so both halves divide them alike.
  virtual std::unique_ptr<PersistentOperation> make_reduce_scatter_shards(std::byte* data, ElementType, Bytes capacity, std::byte* staging,
                                                                          Bytes staging_size) = 0;
  virtual std::unique_ptr<PersistentOperation> make_all_gather_shards(std::byte* data, Bytes element, Bytes capacity) = 0;

  /// After start(size): member i's `size` bytes at all + i * size. `capacity` is per member; `all` holds size() times that. `mine` may
  /// point to its own place in `all`.
  virtual std::unique_ptr<PersistentOperation> make_all_gather(const std::byte* mine, std::byte* all, Bytes capacity) = 0;

  /// Member j holds piece j of the units at `data` (program::piece); afterwards everybody holds all. start(size) takes a multiple of
  /// `unit`, `capacity` at most.
  virtual std::unique_ptr<PersistentOperation> make_gather_pieces(std::byte* data, Bytes unit, Bytes capacity) = 0;

 protected:
  ProcessGroup(program::Group value, int index) : value_{std::move(value)}, index_{index} {}

 private:
  program::Group value_;
  int index_;
};

/// Groups by index in the list given; nullptr where this rank is no member.
using Groups = std::vector<std::unique_ptr<ProcessGroup>>;

/// Forms every group, all ranks giving the same list (Program::groups), and verifies them. Collective over the world. `world` must outlive
/// them.
Groups form(const World& world, const std::vector<program::Group>& groups, Seconds deadline);
/// The same without the proof; local.
Groups connect(const World& world, const std::vector<program::Group>& groups);

/// Proves groups before they are used: each member says who it is and whom it takes for the members, then reductions whose answer, to the
/// last bit, every member can compute (small and large messages, values that tell orders and members apart). Collective over the world,
/// ends in agreement: throws Error{communication} naming the group's kind, its ranks and hosts, and what was wrong or who did not answer
/// within `deadline`.
void verify(const World& world, const Groups& groups, Seconds deadline);

/// Backends. `tags` is the first of the `tag_count` tags on world.reduce() that are this group's own wherever its members meet.
std::unique_ptr<ProcessGroup> make_local_group(const World& world, program::Group value);
std::unique_ptr<ProcessGroup> make_mpi_group(const World& world, program::Group value, int tags, int tag_count);

}  // namespace flotilla::comm
