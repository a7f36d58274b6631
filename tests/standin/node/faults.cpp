// Loaded before the program (LD_PRELOAD), it makes a faulty node of a sound one, in what the program can see of it:
//
//   FLOTILLA_STANDIN_NODE_FAULTS   words, separated by commas:
//     clock=SECONDS      the node's clock is so far ahead (behind: below 0)
//     disk=SECONDS       each MiB that is written to a file takes so much longer
//     spoil=1            what is read of a file in pieces of a MiB or more comes back with one bit flipped
//     core=CPU:FACTOR    work on that hardware thread takes so many times the processor time
//     bit=CALL           from that product of matrices on (counted over all threads), every 50th has one bit flipped
//     sum=BYTES          messages of MPI of at least so many bytes leave with one bit flipped
#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

namespace {

struct Faults {
  double clock = 0, disk = 0, factor = 1;
  int cpu = -1;
  long bit = 0, sum = 0, spoil = 0;

  Faults() {
    const char* words = std::getenv("FLOTILLA_STANDIN_NODE_FAULTS");
    for (; words != nullptr && *words != '\0'; words = next(words)) {
      std::sscanf(words, "clock=%lf", &clock);
      std::sscanf(words, "disk=%lf", &disk);
      std::sscanf(words, "core=%d:%lf", &cpu, &factor);
      std::sscanf(words, "bit=%ld", &bit);
      std::sscanf(words, "sum=%ld", &sum);
      std::sscanf(words, "spoil=%ld", &spoil);
    }
  }
  static const char* next(const char* words) {
    const char* const comma = std::strchr(words, ',');
    return comma == nullptr ? words + std::strlen(words) : comma + 1;
  }
};

const Faults& faults() {
  static const Faults all;
  return all;
}

/// The function that this one stands before.
template <class Function>
Function behind(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

timespec time_of(double seconds) {
  auto whole = static_cast<time_t>(seconds);
  return {whole, static_cast<long>(1e9 * (seconds - static_cast<double>(whole)))};
}

void pass(double seconds) {
  const auto time = time_of(seconds);
  nanosleep(&time, nullptr);
}

/// A piece of a file as large as those that disks are tested with.
bool is_piece_of_a_file(int file, std::size_t size) {
  constexpr std::size_t mebibyte = 1 << 20;
  struct stat facts {};
  return size >= mebibyte && fstat(file, &facts) == 0 && S_ISREG(facts.st_mode);
}

double seconds_of(const timespec& time) { return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec); }

/// What stays of messages: nobody tells when they have left.
const void* spoiled_message(const void* data, std::size_t size) {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<std::vector<char>>> kept;
  auto copy = std::make_unique<std::vector<char>>(size);
  std::memcpy(copy->data(), data, size);
  copy->at(size / 2) ^= 1;
  const std::lock_guard lock{mutex};
  kept.push_back(std::move(copy));
  return kept.back()->data();
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t which, timespec* time) {
  static const auto real = behind<int (*)(clockid_t, timespec*)>("clock_gettime");
  const int result = real(which, time);
  if (result != 0) return result;
  if (which == CLOCK_REALTIME && faults().clock != 0) *time = time_of(seconds_of(*time) + faults().clock);
  if (which == CLOCK_THREAD_CPUTIME_ID && faults().cpu >= 0 && sched_getcpu() == faults().cpu)
    *time = time_of(seconds_of(*time) * faults().factor);
  return result;
}

ssize_t write(int file, const void* data, std::size_t size) {
  static const auto real = behind<ssize_t (*)(int, const void*, std::size_t)>("write");
  constexpr double mebibyte = 1 << 20;
  if (faults().disk > 0 && is_piece_of_a_file(file, size)) pass(faults().disk * static_cast<double>(size) / mebibyte);
  return real(file, data, size);
}

ssize_t read(int file, void* data, std::size_t size) {
  static const auto real = behind<ssize_t (*)(int, void*, std::size_t)>("read");
  const ssize_t got = real(file, data, size);
  if (got > 0 && faults().spoil != 0 && is_piece_of_a_file(file, size)) static_cast<char*>(data)[got / 2] ^= 1;
  return got;
}

// oneDNN's, in our own declarations: https://uxlfoundation.github.io/oneDNN (dnnl_exec_arg_t, DNNL_ARG_DST is 17).
struct dnnl_exec_argument {
  int argument;
  void* memory;
};

int dnnl_primitive_execute(const void* primitive, void* stream, int count, const dnnl_exec_argument* arguments) {
  static const auto real = behind<int (*)(const void*, void*, int, const dnnl_exec_argument*)>("dnnl_primitive_execute");
  static const auto address_of = behind<int (*)(const void*, void**)>("dnnl_memory_get_data_handle");
  static std::atomic<long> calls{0};
  constexpr int destination = 17;
  constexpr long every = 50;
  const int result = real(primitive, stream, count, arguments);
  const long call = ++calls;
  if (faults().bit == 0 || call < faults().bit || (call - faults().bit) % every != 0) return result;
  for (int i = 0; i < count; ++i) {
    void* data = nullptr;
    if (arguments[i].argument == destination && address_of(arguments[i].memory, &data) == 0 && data != nullptr)
      *static_cast<unsigned char*>(data) ^= 0x10;
  }
  return result;
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm world, MPI_Request* request) {
  static const auto real = behind<int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*)>("MPI_Isend");
  static const auto size_of = behind<int (*)(MPI_Datatype, int*)>("MPI_Type_size");
  int each = 0;
  if (faults().sum > 0 && size_of(type, &each) == 0)
    if (const auto size = static_cast<std::size_t>(count) * static_cast<std::size_t>(each); size >= static_cast<std::size_t>(faults().sum))
      data = spoiled_message(data, size);
  return real(data, count, type, peer, tag, world, request);
}

}  // extern "C"
