#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/program/hierarchical_all_reduce.hpp"
#include "group_text.hpp"
#include "mpi_operations.hpp"

namespace flotilla::comm {
namespace {

class MpiGroup final : public ProcessGroup {
 public:
  MpiGroup(const World& world, program::Group value, int index, int tags, int tag_count, MakeLocalWork make_work)
      : ProcessGroup{std::move(value), index},
        world_{world},
        make_work_{std::move(make_work)},
        next_tag_{tags},
        end_of_tags_{tags + tag_count} {}

  std::string describe() const override { return comm::describe(world_, value()); }

  std::unique_ptr<PersistentOperation> make_all_reduce(std::byte* data, ElementType type, Bytes capacity, std::byte* staging,
                                                       Bytes staging_size) override {
    if (!value().subgroups.empty()) return make_sum(Ways::both, data, type, capacity, staging, staging_size);
    require_staging(staging_size, all_reduce_staging(capacity, type, size()), capacity);
    return make_direct_all_reduce(world_, *this, take_tags(tags_per_all_reduce), make_work_(), data, type, capacity, staging);
  }

  std::unique_ptr<PersistentOperation> make_reduce_scatter(std::byte* data, ElementType type, Bytes unit, Bytes capacity,
                                                           std::byte* staging, Bytes staging_size) override {
    FLOTILLA_REQUIRE(staging_size >= reduce_scatter_staging(capacity, unit, size()), ErrorKind::internal, "staging of ", staging_size.count,
                     " bytes is too small for a reduce-scatter of ", capacity.count, " over the ", describe());
    return make_direct_reduce_scatter(world_, *this, take_tags(tags_per_reduce_scatter), make_work_(), data, type, unit, capacity, staging);
  }

  std::unique_ptr<PersistentOperation> make_reduce_scatter_shards(std::byte* data, ElementType type, Bytes capacity, std::byte* staging,
                                                                  Bytes staging_size) override {
    return make_sum(Ways::there, data, type, capacity, staging, staging_size);
  }

  std::unique_ptr<PersistentOperation> make_all_gather_shards(std::byte* data, Bytes element, Bytes capacity) override {
    return make_subgroup_sum(world_, *this, take_tags(tags_of_sum()), make_work_(), Ways::back, data, element, ElementType::fp32, capacity,
                             nullptr);
  }

  std::unique_ptr<PersistentOperation> make_all_gather(const std::byte* mine, std::byte* all, Bytes capacity) override {
    return make_direct_all_gather(world_, *this, take_tags(tags_per_all_gather), make_work_(), mine, all, capacity);
  }

  std::unique_ptr<PersistentOperation> make_gather_pieces(std::byte* data, Bytes unit, Bytes capacity) override {
    return make_direct_gather_pieces(world_, *this, take_tags(tags_per_all_gather), data, unit, capacity);
  }

 private:
  int tags_of_sum() const { return tags_per_sum_level * (static_cast<int>(value().subgroups.size()) + 1); }

  void require_staging(Bytes there, Bytes needed, Bytes of) const {
    FLOTILLA_REQUIRE(there >= needed, ErrorKind::internal, "staging of ", there.count, " bytes is too small for a sum of ", of.count,
                     " over the ", describe());
  }

  std::unique_ptr<PersistentOperation> make_sum(Ways ways, std::byte* data, ElementType type, Bytes capacity, std::byte* staging,
                                                Bytes staging_size) {
    require_staging(staging_size, program::sum_staging(value(), index(), capacity, element_size(type)), capacity);
    return make_subgroup_sum(world_, *this, take_tags(tags_of_sum()), make_work_(), ways, data, element_size(type), type, capacity,
                             staging);
  }

  int take_tags(int count) {
    FLOTILLA_REQUIRE(count <= end_of_tags_ - next_tag_, ErrorKind::unavailable,
                     "this MPI library has too few tags for the operations of the ", describe(), "; use one with more than ",
                     world_.largest_tag());
    next_tag_ += count;
    return next_tag_ - count;
  }

  const World& world_;
  const MakeLocalWork make_work_;
  int next_tag_, end_of_tags_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_mpi_group(const World& world, program::Group value, int tags, int tag_count) {
  const int index = index_in(world, value), members = static_cast<int>(value.members.size());
  return std::make_unique<MpiGroup>(world, std::move(value), index, tags, tag_count, work_on_host(members));
}

std::unique_ptr<ProcessGroup> make_device_memory_group(const World& world, program::Group value, int tags, int tag_count,
                                                       const gpu::DeviceContext& device, const OrderedSum& ordered_sum) {
  const int index = index_in(world, value);
  return std::make_unique<MpiGroup>(world, std::move(value), index, tags, tag_count, work_on_device(device, ordered_sum));
}

}  // namespace flotilla::comm
