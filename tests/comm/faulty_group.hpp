#pragma once
#include <memory>
#include <utility>

#include "flotilla/comm/process_group.hpp"

namespace flotilla::comm {

/// An all-reduce that spoils one element (the second) of this rank's sums, as a faulty link or library would.
class SpoiledSum final : public PersistentOperation {
 public:
  SpoiledSum(std::unique_ptr<PersistentOperation> operation, std::byte* data) : operation_{std::move(operation)}, data_{data} {}
  void start(Bytes size) override {
    spoiled_ = false;
    operation_->start(size);
  }
  bool progress() override {
    if (!operation_->progress()) return false;
    if (!std::exchange(spoiled_, true)) data_[5] ^= std::byte{1};
    return true;
  }
  std::string describe() const override { return operation_->describe(); }

 private:
  std::unique_ptr<PersistentOperation> operation_;
  std::byte* data_;
  bool spoiled_ = false;
};

/// A group whose sums come out wrong on this rank.
class FaultyGroup final : public ProcessGroup {
 public:
  explicit FaultyGroup(std::unique_ptr<ProcessGroup> good) : ProcessGroup{good->value(), good->index()}, good_{std::move(good)} {}
  std::string describe() const override { return good_->describe(); }
  std::unique_ptr<PersistentOperation> make_all_reduce(std::byte* data, ElementType type, Bytes capacity, std::byte* staging,
                                                       Bytes size) override {
    return std::make_unique<SpoiledSum>(good_->make_all_reduce(data, type, capacity, staging, size), data);
  }
  std::unique_ptr<PersistentOperation> make_reduce_scatter(std::byte* data, ElementType type, Bytes unit, Bytes capacity,
                                                           std::byte* staging, Bytes size) override {
    return good_->make_reduce_scatter(data, type, unit, capacity, staging, size);
  }
  std::unique_ptr<PersistentOperation> make_reduce_scatter_shards(std::byte* data, ElementType type, Bytes capacity, std::byte* staging,
                                                                  Bytes size) override {
    return good_->make_reduce_scatter_shards(data, type, capacity, staging, size);
  }
  std::unique_ptr<PersistentOperation> make_all_gather_shards(std::byte* data, Bytes element, Bytes capacity) override {
    return good_->make_all_gather_shards(data, element, capacity);
  }
  std::unique_ptr<PersistentOperation> make_all_gather(const std::byte* mine, std::byte* all, Bytes capacity) override {
    return good_->make_all_gather(mine, all, capacity);
  }
  std::unique_ptr<PersistentOperation> make_gather_pieces(std::byte* data, Bytes unit, Bytes capacity) override {
    return good_->make_gather_pieces(data, unit, capacity);
  }

 private:
  std::unique_ptr<ProcessGroup> good_;
};

}  // namespace flotilla::comm
