// A group of one: a sum over itself is already there.
#include <algorithm>

#include "flotilla/base/error.hpp"
#include "group_text.hpp"

namespace flotilla::comm {
namespace {

class Nothing final : public PersistentOperation {
 public:
  explicit Nothing(Bytes capacity) : capacity_{capacity} {}
  void start(Bytes size) override { FLOTILLA_ASSERT(size <= capacity_, size.count, " bytes: ", describe()); }
  bool progress() override { return true; }
  std::string describe() const override { return "a collective within one rank"; }

 private:
  Bytes capacity_;
};

class Copy final : public PersistentOperation {
 public:
  Copy(const std::byte* from, std::byte* to, Bytes capacity) : from_{from}, to_{to}, capacity_{capacity} {}
  void start(Bytes size) override {
    FLOTILLA_ASSERT(size >= Bytes{0} && size <= capacity_, size.count, " bytes: ", describe());
    if (from_ != to_) std::copy_n(from_, size.count, to_);
  }
  bool progress() override { return true; }
  std::string describe() const override { return "all-gather within one rank"; }

 private:
  const std::byte* from_;
  std::byte* to_;
  Bytes capacity_;
};

class LocalGroup final : public ProcessGroup {
 public:
  LocalGroup(const World& world, program::Group value) : ProcessGroup{std::move(value), 0}, world_{world} {}
  std::string describe() const override { return comm::describe(world_, value()); }
  std::unique_ptr<PersistentOperation> make_all_reduce(std::byte*, ElementType, Bytes capacity, std::byte*, Bytes) override {
    return std::make_unique<Nothing>(capacity);
  }
  std::unique_ptr<PersistentOperation> make_reduce_scatter(std::byte*, ElementType, Bytes, Bytes capacity, std::byte*, Bytes) override {
    return std::make_unique<Nothing>(capacity);
  }
  std::unique_ptr<PersistentOperation> make_reduce_scatter_shards(std::byte*, ElementType, Bytes capacity, std::byte*, Bytes) override {
    return std::make_unique<Nothing>(capacity);
  }
  std::unique_ptr<PersistentOperation> make_all_gather_shards(std::byte*, Bytes, Bytes capacity) override {
    return std::make_unique<Nothing>(capacity);
  }
  std::unique_ptr<PersistentOperation> make_all_gather(const std::byte* mine, std::byte* all, Bytes capacity) override {
    return std::make_unique<Copy>(mine, all, capacity);
  }
  std::unique_ptr<PersistentOperation> make_gather_pieces(std::byte*, Bytes, Bytes capacity) override {
    return std::make_unique<Nothing>(capacity);
  }

 private:
  const World& world_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_local_group(const World& world, program::Group value) {
  FLOTILLA_REQUIRE(value.members.size() == 1 && index_in(world, value) == 0, ErrorKind::internal,
                   "not a group of this rank alone: ", describe(world, value));
  return std::make_unique<LocalGroup>(world, std::move(value));
}

}  // namespace flotilla::comm
