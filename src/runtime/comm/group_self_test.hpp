#pragma once
// Private: the proof of one group.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flotilla/comm/process_group.hpp"

namespace flotilla::comm {

/// Who a member is and whom it takes for the group.
struct Identity {
  std::uint64_t group = 0;
  std::int32_t rank = -1, index = -1;
  bool operator==(const Identity&) const = default;
};

/// One group's proof, in two parts, of which the second makes sense only where the first holds for everybody. Members start the parts
/// together; neither start nor progress() blocks. What is wrong is Error{communication}.
class GroupSelfTest {
 public:
  explicit GroupSelfTest(ProcessGroup& group);
  void start_identities();
  void check_identities(const World&) const;
  void start_sums();
  void check_sums() const;
  /// True when what was started is done.
  bool progress();
  /// Of the first unfinished operation; empty: none.
  std::string waiting_for() const;

 private:
  void reduce(std::vector<float>& values, std::int64_t count, std::vector<float>& staging);
  void check_sum(const std::vector<float>& values) const;

  ProcessGroup& group_;
  Identity mine_;
  std::vector<Identity> identities_;
  std::vector<float> small_, large_, small_staging_, large_staging_;
  std::vector<std::unique_ptr<PersistentOperation>> operations_;  // after the buffers they use
};

using Proofs = std::vector<std::unique_ptr<GroupSelfTest>>;
/// Waits for what was started on each. Throws Error{communication} when it is not done within `deadline`.
void finish(const Proofs&, Seconds deadline);

}  // namespace flotilla::comm
