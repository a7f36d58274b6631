// Loaded before an MPI library (LD_PRELOAD), it makes a CUDA-aware one of it, in ranks that ask for that: the stand-in driver lets their
// host follow a device's addresses, so that MPI's own copies reach what stands there. The launcher loads it, too, and has no MPI: nothing
// here may need its data.
//
//   FLOTILLA_STANDIN_CUDA_AWARE   the ranks: "all" or "0,2" (tests/standin/driver); the others say that they take no device memory
//   FLOTILLA_STANDIN_MPI_FAULTS   "wrong@3:1": from its third message from device memory on, rank 1 sends other bytes than stand there.
//                                 "hang@3:1": they never leave
//   FLOTILLA_STANDIN_MPI_MEMORY   bytes that the library takes of a device for each rank to which it sends from there, and never gives back
#include <dlfcn.h>
#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace {

/// The stand-in driver's, where a process has loaded it.
template <class Function>
Function driver(const char* name) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Function>(library == nullptr ? nullptr : dlsym(library, name));
}

bool on_device(const void* data) {
  const auto is_device = driver<int (*)(const void*)>("flotilla_standin_is_device");
  return is_device != nullptr && is_device(data) != 0;
}

struct Fault {
  std::string kind;
  int from = 0;  ///< the message; 0: none
};

Fault my_fault() {
  const char *words = std::getenv("FLOTILLA_STANDIN_MPI_FAULTS"), *me = std::getenv("OMPI_COMM_WORLD_RANK");
  char kind[16] = {};
  int from = 0, rank = 0;
  const bool given = words != nullptr && me != nullptr && std::sscanf(words, "%15[a-z]@%d:%d", kind, &from, &rank) == 3;
  return given && rank == std::atoi(me) ? Fault{kind, from} : Fault{};
}

/// What such libraries hold for each peer: staging buffers, mapped memory. Peers count as their communicator numbers them.
void take_memory(const void* data, int peer) {
  static const char* const words = std::getenv("FLOTILLA_STANDIN_MPI_MEMORY");
  if (words == nullptr) return;
  static std::mutex mutex;
  static std::set<int> known;
  const std::lock_guard lock{mutex};
  static const auto keep = driver<int (*)(const void*, std::size_t)>("flotilla_standin_keep");
  if (known.insert(peer).second) keep(data, std::strtoull(words, nullptr, 10));
}

/// A message's other bytes, which stay to the end: nobody tells when it has left.
const void* spoiled(const void* data, int count, MPI_Datatype type) {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<std::vector<char>>> kept;
  int each = 0;
  PMPI_Type_size(type, &each);
  const auto size = static_cast<std::size_t>(count) * static_cast<std::size_t>(each);
  auto copy = std::make_unique<std::vector<char>>(size);
  std::memcpy(copy->data(), data, size);
  if (size > 0) copy->at(size / 2) ^= 0x41;
  const std::lock_guard lock{mutex};
  kept.push_back(std::move(copy));
  return kept.back()->data();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int MPIX_Query_cuda_support() {
  const auto may_follow = driver<int (*)()>("flotilla_standin_host_may_follow");
  return may_follow != nullptr ? may_follow() : 0;
}

extern "C" __attribute__((visibility("default"))) int MPI_Isend(const void* data, int count, MPI_Datatype type, int peer, int tag,
                                                                MPI_Comm all, MPI_Request* request) {
  static const Fault fault = my_fault();
  static std::atomic<int> messages{0};
  const bool from_device = count > 0 && on_device(data);
  if (from_device) take_memory(data, peer);
  if (fault.from == 0 || !from_device || ++messages < fault.from) return PMPI_Isend(data, count, type, peer, tag, all, request);
  if (fault.kind == "wrong") return PMPI_Isend(spoiled(data, count, type), count, type, peer, tag, all, request);
  int me = 0;
  PMPI_Comm_rank(all, &me);
  return PMPI_Irecv(nullptr, 0, type, me, tag, all, request);  // nobody sends to itself
}
