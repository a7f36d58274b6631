#pragma once
// Private: the MPI group's operations.
#include <memory>

#include "flotilla/comm/process_group.hpp"
#include "local_work.hpp"

namespace flotilla::comm {

inline constexpr int tags_per_all_reduce = 2;
inline constexpr int tags_per_reduce_scatter = 1;
inline constexpr int tags_per_all_gather = 1;
inline constexpr int tags_per_sum_level = 2;

/// `group` outlives the operation; the tags from `tag` on are its own. `work`: where the data stand.
std::unique_ptr<PersistentOperation> make_direct_all_reduce(const World& world, const ProcessGroup& group, int tag,
                                                            std::unique_ptr<LocalWork> work, std::byte* data, ElementType type,
                                                            Bytes capacity, std::byte* staging);
std::unique_ptr<PersistentOperation> make_direct_reduce_scatter(const World& world, const ProcessGroup& group, int tag,
                                                                std::unique_ptr<LocalWork> work, std::byte* data, ElementType type,
                                                                Bytes unit, Bytes capacity, std::byte* staging);
std::unique_ptr<PersistentOperation> make_direct_all_gather(const World& world, const ProcessGroup& group, int tag,
                                                            std::unique_ptr<LocalWork> work, const std::byte* mine, std::byte* all,
                                                            Bytes capacity);
std::unique_ptr<PersistentOperation> make_direct_gather_pieces(const World& world, const ProcessGroup& group, int tag, std::byte* data,
                                                               Bytes unit, Bytes capacity);

/// Of a sum hierarchically: contributions to those who add, sums back to everybody.
enum class Ways { there, back, both };
/// `element`: bytes of one; `type` and `staging` count where something is added.
std::unique_ptr<PersistentOperation> make_subgroup_sum(const World& world, const ProcessGroup& group, int tag,
                                                       std::unique_ptr<LocalWork> work, Ways ways, std::byte* data, Bytes element,
                                                       ElementType type, Bytes capacity, std::byte* staging);

}  // namespace flotilla::comm
