#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>

#include "communicator.hpp"

namespace flotilla::standin::nccl {
namespace {

std::mutex living_mutex;
std::set<Comm*> living;

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// Where communicators meet.
std::string folder() {
  const std::string chosen = setting("FLOTILLA_STANDIN_NCCL_FOLDER");
  return (chosen.empty() ? "/dev/shm" : chosen) + "/";
}

/// `joining`: the process's communicators so far.
Result join(Comm& comm, std::uint64_t joining) {
  const auto fails = [&](const char* kind) { return has_fault(kind, comm, 0) || has_fault(kind, comm, joining); };
  if (fails("init_die")) _exit(9);
  if (fails("init_slow")) usleep(300'000);
  if (fails("init_stop")) raise(SIGSTOP);
  if (fails("init_unplug")) unplugged = true;
  if (unplugged || fails("init_hang")) {
    while (pause(comm)) {
    }
    return api::remote_error;  // given up: it does not join after all
  }
  const int file = open(comm.name.c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) return api::system_error;
  void* const at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (at == MAP_FAILED) return api::system_error;
  comm.shared = static_cast<Shared*>(at);
  const int come = ++comm.shared->joined;
  bool all = true;
  while (all && comm.shared->joined < comm.size) all = pause(comm);
  if (come == comm.size || !all) unlink(comm.name.c_str());
  return all ? api::success : api::remote_error;
}

/// The driver's, for memory that a communicator takes.
template <class Function>
Function driver(const char* name) {
  return reinterpret_cast<Function>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name));
}

/// Of the calling thread's device, for each other member.
bool take_memory(Comm& comm) {
  static const auto take = driver<int (*)(void**, std::size_t)>("cuMemAlloc_v2");
  const std::string bytes = setting("FLOTILLA_STANDIN_NCCL_MEMORY");
  const std::size_t size = static_cast<std::size_t>(comm.size - 1) * (bytes.empty() ? memory_of_a_connection : std::stoul(bytes));
  return size == 0 || take(&comm.memory, size) == 0;
}

void bury(Comm* comm) {
  if (comm->background.joinable()) comm->background.join();
  while (comm->pending > 0) usleep(200);
  if (comm->shared) munmap(comm->shared, sizeof(Shared));
  static const auto give_back = driver<int (*)(void*)>("cuMemFree_v2");
  if (comm->memory) give_back(comm->memory);
  {
    const std::lock_guard lock{living_mutex};
    living.erase(comm);
  }
  delete comm;
}

bool any_pending() {
  const std::lock_guard lock{living_mutex};
  for (const Comm* comm : living)
    if (comm->pending > 0) return true;
  return false;
}

}  // namespace

std::atomic<bool> unplugged{false};

void say(const Comm& comm, const std::string& words) {
  std::fprintf(stderr, "stand-in NCCL: rank %d of %d in %s: %s\n", comm.rank, comm.size, comm.name.c_str(), words.c_str());
  std::fflush(stderr);
}

bool is_set(const char* variable) { return std::getenv(variable) != nullptr; }

bool pause(const Comm& comm) {
  if (comm.aborted) return false;
  static thread_local unsigned turns = 0;
  if (++turns % 64 != 0)
    sched_yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds{50});
  return true;
}

bool has_fault(const char* kind, const Comm& comm, std::uint64_t operation) {
  static const std::string faults = "," + setting("FLOTILLA_STANDIN_NCCL_FAULTS") + ",";
  static const std::string named = is_set("FLOTILLA_STANDIN_RANK") ? setting("FLOTILLA_STANDIN_RANK") : setting("OMPI_COMM_WORLD_RANK");
  if (faults == ",,") return false;
  const std::string rank = ":" + (named.empty() ? std::to_string(comm.rank) : named) + ",";
  const auto is_there = [&](const std::string& at) { return faults.find("," + std::string{kind} + at + rank) != faults.npos; };
  return operation == 0 ? is_there("") : is_there("@" + std::to_string(operation)) || is_there("@all");
}

Result in_background(Comm& comm, std::function<Result()> work) {
  if (comm.background.joinable()) comm.background.join();
  comm.state = api::in_progress;
  comm.background = std::thread{[&comm, work = std::move(work)] { comm.state = work(); }};
  return api::in_progress;
}

void abort(const std::vector<Comm*>& comms) {
  for (Comm* comm : comms) comm->aborted = true;
  while (is_set("FLOTILLA_STANDIN_NCCL_ABORT_WAITS") && any_pending()) usleep(200);
  for (Comm* comm : comms) bury(comm);
}

}  // namespace flotilla::standin::nccl

namespace flotilla::nccl::api {

using namespace standin::nccl;

Result ncclGetVersion(int* version) {
  const std::string chosen = setting("FLOTILLA_STANDIN_NCCL_VERSION");
  *version = chosen.empty() ? 22809 : std::atoi(chosen.c_str());
  return success;
}

Result ncclGetUniqueId(UniqueId* id) {
  std::uint64_t drawn = 0;  // nodes may have processes of one number
  if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn) return system_error;
  *id = {};
  std::snprintf(id->bytes.data(), id->bytes.size(), "flotilla-nccl-%016llx", static_cast<unsigned long long>(drawn));
  return success;
}

const char* ncclGetErrorString(Result result) {
  static constexpr const char* words[] = {"no error",
                                          "unhandled cuda error",
                                          "unhandled system error",
                                          "internal error",
                                          "invalid argument",
                                          "invalid usage",
                                          "remote process exited or there was a network error",
                                          "NCCL operation in progress"};
  return result >= 0 && result < 8 ? words[result] : "unknown result code";
}

const char* ncclGetLastError(standin::nccl::Comm*) { return ""; }

Result ncclCommInitRankConfig(standin::nccl::Comm** out, int members, UniqueId id, int rank, NcclConfig* config) {
  if (config->magic != 0xcafebeef || config->blocking != 0 || members > most_members || rank < 0 || rank >= members)
    return invalid_argument;
  auto* comm = new standin::nccl::Comm;
  comm->name = folder() + id.bytes.data();
  comm->rank = rank;
  comm->size = members;
  {
    const std::lock_guard lock{living_mutex};
    living.insert(comm);
  }
  *out = comm;
  if (!take_memory(*comm)) return unhandled_cuda_error;
  static std::atomic<std::uint64_t> joined{0};
  return in_background(*comm, [comm, joining = ++joined] { return join(*comm, joining); });
}

Result ncclCommGetAsyncError(standin::nccl::Comm* comm, Result* error) {
  *error = comm->state;
  return success;
}

Result ncclCommFinalize(standin::nccl::Comm* comm) {
  if (comm->state != success) return invalid_argument;
  return in_background(*comm, [comm] {
    while (comm->pending > 0)
      if (!pause(*comm)) return Result{remote_error};
    return Result{success};
  });
}

Result ncclCommDestroy(standin::nccl::Comm* comm) {
  bury(comm);
  return success;
}

}  // namespace flotilla::nccl::api
