#include "app/common/on_all_ranks.hpp"

#include "flotilla/base/exit_code.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/comm/fail_world.hpp"
#include "flotilla/mpi/session.hpp"

namespace flotilla::app {

int on_all_ranks(const std::function<int(const comm::World&)>& work) {
  mpi::Session session;
  const comm::World world{session.world(), ranks_start_deadline};
  try {
    return work(world);
  } catch (const comm::AgreedError& error) {
    if (world.rank() == Rank{0}) log::error(error.what());
    return static_cast<int>(exit_code(error.kind()));
  } catch (...) {
    comm::fail_world(&world, nullptr, comm::last_words());
  }
}

}  // namespace flotilla::app
