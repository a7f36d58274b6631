#pragma once
// Private: what an operation does with its rank's own memory, between its messages.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "flotilla/comm/device_group.hpp"
#include "flotilla/comm/process_group.hpp"

namespace flotilla::comm {

/// Sums and copies where the data stand: in the host's memory, in slices, or in a device's, as work on a stream. One task after the other;
/// nothing blocks or allocates.
class LocalWork {
 public:
  virtual ~LocalWork() = default;
  /// Adds the contributions of `members` in their order. Mine stands in `sum`, which takes the result; the others' stand one after the
  /// other in `others`, `count` elements each.
  virtual void start_sum(ElementType, std::byte* sum, const std::byte* others, int members, int mine, std::int64_t count) = 0;
  virtual void start_copy(std::byte* to, const std::byte* from, Bytes) = 0;
  /// Moves it on; true when finished (and when nothing was started).
  virtual bool progress() = 0;
};

/// One for each operation.
using MakeLocalWork = std::function<std::unique_ptr<LocalWork>()>;
/// `members`: contributions at most.
MakeLocalWork work_on_host(int members);
MakeLocalWork work_on_device(const gpu::DeviceContext&, const OrderedSum&);

}  // namespace flotilla::comm
