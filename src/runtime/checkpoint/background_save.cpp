#include "flotilla/checkpoint/background_save.hpp"

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/comm/agree.hpp"
#include "snapshot.hpp"

namespace flotilla::checkpoint {
namespace {

/// Most saves end in it; one that hangs on a disk or a lost peer must not keep the job from its end.
constexpr Seconds to_end_by_itself{5};

}  // namespace

/// What the thread uses: it may outlive the BackgroundSave.
struct BackgroundSave::Shared {
  Shared(const comm::World& all, Seconds deadline) : world{all.control(), deadline} {}

  void complete_copy() {
    if (copy) copy->complete();
  }

  const comm::World world;
  std::optional<Snapshot> copy;
};

class BackgroundSave::Thread {
 public:
  Thread(std::shared_ptr<Shared> shared, LocalState state, Save save)
      : work_{std::make_shared<Work>(std::move(shared), std::move(state), std::move(save))}, thread_{[work = work_] { work->run(); }} {}
  ~Thread() {
    if (!thread_.joinable()) return;
    for (const Seconds end = now() + to_end_by_itself; !over() && now() < end;) std::this_thread::sleep_for(std::chrono::milliseconds{5});
    if (over()) {
      thread_.join();
    } else {
      static_cast<void>(new std::shared_ptr<Work>{work_});  // what it holds is not given back while the job ends
      thread_.detach();
    }
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  bool over() const { return work_->over.load(std::memory_order_acquire); }
  const std::exception_ptr& error() const { return work_->error; }
  SaveReport wait() {
    thread_.join();
    if (work_->error) std::rethrow_exception(work_->error);
    return work_->report;
  }

 private:
  struct Work {
    Work(std::shared_ptr<Shared> with, LocalState what, Save how) : shared{std::move(with)}, state{std::move(what)}, save{std::move(how)} {}

    void run() noexcept {
      try {
        shared->complete_copy();
        report = save(shared->world, state);
      } catch (...) {
        error = std::current_exception();
      }
      over.store(true, std::memory_order_release);
    }

    const std::shared_ptr<Shared> shared;
    const LocalState state;
    const Save save;
    SaveReport report;
    std::exception_ptr error;
    std::atomic<bool> over{false};
  };

  std::shared_ptr<Work> work_;
  std::thread thread_;
};

BackgroundSave::BackgroundSave(const comm::World& world, const LocalState& like, StateMemory memory, Seconds deadline)
    : shared_{std::make_shared<Shared>(world, deadline)} {
  comm::agree_on(
      world, "taking memory for a copy of the training state",
      [&] {
        if (memory == StateMemory::changes) shared_->copy.emplace(like);
      },
      deadline);
}

BackgroundSave::~BackgroundSave() { complete_copy(); }

Bytes BackgroundSave::copy_size() const { return shared_->copy ? shared_->copy->size() : Bytes{}; }

void BackgroundSave::begin(const std::filesystem::path& run, const LocalState& state, const Manifest& manifest,
                           const SaveOptions& options) {
  begin(state,
        [run, manifest, options](const comm::World& world, const LocalState& kept) { return save(world, run, kept, manifest, options); });
}

void BackgroundSave::begin(const LocalState& state, Save save) {
  FLOTILLA_ASSERT(!thread_, "two saves at once");
  thread_ = std::make_unique<Thread>(shared_, shared_->copy ? shared_->copy->begin(state) : state, std::move(save));
}

void BackgroundSave::complete_copy() { shared_->complete_copy(); }

bool BackgroundSave::over() const {
  if (!thread_ || !thread_->over()) return false;
  if (const auto& error = thread_->error()) {
    try {
      std::rethrow_exception(error);
    } catch (const comm::AgreedError&) {  // wait() throws it, on every rank
    }
  }
  return true;
}

SaveReport BackgroundSave::wait() {
  FLOTILLA_ASSERT(thread_, "no save is under way");
  const auto thread = std::move(thread_);
  return thread->wait();
}

}  // namespace flotilla::checkpoint
