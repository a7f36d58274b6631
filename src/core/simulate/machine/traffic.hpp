#pragma once
#include <cstddef>
#include <limits>
#include <vector>

#include "wires.hpp"

namespace flotilla::simulate {

/// What moves over shared wires, in order of time. Flows share a wire's lanes evenly while they want more of them than there are; each of
/// a user's flows moves at what the fullest of its wires allows. (What a flow leaves of one wire because another holds it back is not
/// given to others.) So moments change little when little changes: nobody is overtaken.
class Traffic {
 public:
  explicit Traffic(const Wires&);

  /// `user` begins to move what takes `seconds` while nobody else is on its wires; it moves nothing else yet. Times never fall from call
  /// to call of begin() and end_next().
  void begin(int user, double at, double seconds);

  /// When the next user is done, if nobody begins before; infinity when nothing moves.
  double next_end();
  /// Which one; it moves no more.
  int end_next();

 private:
  struct Flow {
    double left = 0, rate = 0, since = 0;
    double end = std::numeric_limits<double>::infinity();
    std::size_t place = 0;  ///< in `moving_`
  };
  static constexpr int nobody = -1;

  bool ends_before(int user, int other) const;
  void load_wires(int user, double at, double sign);
  void settle(int user, double at);
  double rate_of(int user) const;

  const Wires& wires_;
  std::vector<double> wanted_;             ///< by wire, of what moves
  std::vector<std::vector<int>> on_wire_;  ///< users that move there on their own account
  std::vector<Flow> moves_;                ///< by user
  std::vector<int> moving_;                ///< users, in no order: few move at once
  int first_ = nobody;                     ///< of them to end; nobody: not looked for yet
};

}  // namespace flotilla::simulate
