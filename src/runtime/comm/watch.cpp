#include "flotilla/comm/watch.hpp"

#include "watch_loop.hpp"

namespace flotilla::comm {

Watch::Watch(const World& world, WatchOptions options, OnTrouble on_trouble)
    : loop_{std::make_unique<Loop>(world, options, std::move(on_trouble))} {}
Watch::~Watch() = default;

void Watch::request_stop(const std::string& reason, bool urgent) { loop_->request_stop(reason, urgent); }
void Watch::give_up(std::int64_t step) { loop_->give_up(step); }
std::int64_t Watch::given_up() const noexcept { return loop_->given_up(); }
std::optional<StopRequest> Watch::stop_requested() const { return loop_->stop_requested(); }
void Watch::reach(int place) { loop_->reach(place); }
std::vector<int> Watch::reached() const { return loop_->reached(); }
std::optional<Trouble> Watch::trouble() const { return loop_->trouble(); }
void Watch::announce_failure(const LastWords& words, Seconds deadline) { loop_->announce_failure(words, deadline); }
void Watch::close(Seconds deadline) { loop_->close(deadline); }

}  // namespace flotilla::comm
