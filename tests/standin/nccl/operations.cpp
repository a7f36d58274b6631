#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "communicator.hpp"

namespace flotilla::standin::nccl {
namespace {

[[noreturn]] void die(const Comm& comm, const std::string& why) {
  say(comm, why);
  _exit(87);
}

std::size_t width(int type) {
  switch (type) {
    case api::uint8: return 1;
    case api::float16:
    case api::bfloat16: return 2;
    case api::float64: return 8;
    default: return 4;
  }
}

const char* word(Kind kind) {
  static constexpr const char* words[] = {"all-reduce", "reduce-scatter", "all-gather", "send and receive"};
  return words[static_cast<int>(kind)];
}

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
std::uint16_t to_bf16(float v) {
  const auto bits = std::bit_cast<std::uint32_t>(v);
  return static_cast<std::uint16_t>(v != v ? 0x7fc0u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// Element `i` of what the members show, added in their order.
template <class Stored, class Sum, class Load, class Store>
void add_up(const Comm& comm, char* to, std::size_t count, Load load, Store store, bool wrong) {
  for (std::size_t i = 0; i < count; ++i) {
    Sum sum{};
    for (int r = 0; r < comm.size; ++r) {
      Stored value;
      std::memcpy(&value, comm.shared->data[r] + i * sizeof value, sizeof value);
      sum = r == 0 ? load(value) : sum + load(value);
    }
    if (wrong && i == 0) sum += 1;
    const Stored result = store(sum);
    std::memcpy(to + i * sizeof result, &result, sizeof result);
  }
}

void reduce(const Comm& comm, char* to, std::size_t count, int type, bool wrong) {
  const auto same = [](auto v) { return v; };
  if (type == api::float32) return add_up<float, float>(comm, to, count, same, same, wrong);
  if (type == api::float64) return add_up<double, double>(comm, to, count, same, same, wrong);
  if (type == api::bfloat16) return add_up<std::uint16_t, float>(comm, to, count, from_bf16, to_bf16, wrong);
  die(comm, "a sum of a type that this stand-in does not add");
}

/// All members have come this far; false when the communicator was aborted first.
bool meet(Comm& comm, std::atomic<std::uint64_t> Place::*counter) {
  if (!unplugged) (comm.shared->places[comm.rank].*counter).store(comm.phase, std::memory_order_release);
  for (int r = 0; r < comm.size; ++r)
    while (unplugged || (comm.shared->places[r].*counter).load(std::memory_order_acquire) < comm.phase)
      if (!pause(comm)) return false;
  return true;
}

/// Every member shows `size` bytes, then `use` looks at all of them.
template <class Use>
bool phase(Comm& comm, const char* from, std::size_t size, Use use) {
  ++comm.phase;
  if (size > 0) std::memcpy(comm.shared->data[comm.rank], from, size);
  if (!meet(comm, &Place::shown)) return false;
  use();
  return meet(comm, &Place::used);
}

void require_alike(Comm& comm, const Collective& mine) {
  for (int r = 0; r < comm.size; ++r) {
    const Place& theirs = comm.shared->places[r];
    if (theirs.kind != mine.kind || theirs.type != mine.type || theirs.count != mine.count)
      die(comm, "this operation is " + std::string{word(mine.kind)} + " of " + std::to_string(mine.count) + " here and " +
                    word(theirs.kind) + " of " + std::to_string(theirs.count) + " on rank " + std::to_string(r));
  }
}

bool agree(Comm& comm, const Collective& c) {
  Place& place = comm.shared->places[comm.rank];
  place.kind = c.kind;
  place.type = c.type;
  place.count = c.count;
  return phase(comm, nullptr, 0, [&] { require_alike(comm, c); });
}

/// The operation's ordinal in this process, after its faults; 0 when the communicator was aborted meanwhile.
std::uint64_t begin(Comm& comm) {
  static std::atomic<std::uint64_t> operations{0};
  const std::uint64_t ordinal = ++operations;
  if (has_fault("die", comm, ordinal)) _exit(9);
  if (has_fault("stop", comm, ordinal)) raise(SIGSTOP);
  if (has_fault("unplug", comm, ordinal)) unplugged = true;
  if (has_fault("slow", comm, ordinal))
    for (int i = 0; i < 300 && !comm.aborted; ++i) usleep(1000);
  if (has_fault("async", comm, ordinal)) comm.state = api::remote_error;
  if (has_fault("hang", comm, ordinal) || comm.state == api::remote_error)
    while (pause(comm)) {
    }
  return comm.aborted ? 0 : ordinal;
}

bool send_some(Comm& comm, Message& m) {
  Mailbox& box = comm.shared->mail[comm.rank][m.peer];
  auto& sent = comm.sent[static_cast<std::size_t>(m.peer)];
  if (unplugged || box.taken.load(std::memory_order_acquire) != sent) return false;
  box.size = std::min(chunk, m.left);
  std::memcpy(box.data, m.at, box.size);
  m.at += box.size;
  m.left -= box.size;
  box.sent.store(++sent, std::memory_order_release);
  return true;
}

bool receive_some(Comm& comm, Message& m) {
  Mailbox& box = comm.shared->mail[m.peer][comm.rank];
  auto& taken = comm.taken[static_cast<std::size_t>(m.peer)];
  if (unplugged || box.sent.load(std::memory_order_acquire) <= taken) return false;
  if (box.size > m.left) die(comm, "a message from rank " + std::to_string(m.peer) + " is longer than its receive");
  std::memcpy(m.at, box.data, box.size);
  m.at += box.size;
  m.left -= box.size;
  box.taken.store(++taken, std::memory_order_release);
  return true;
}

/// One attempt at each message that is the first of its direction and peer. Whether bytes moved; `busy`: whether any are left.
bool move_some(Comm& comm, std::vector<Message>& messages, bool& busy) {
  bool begun[2][most_members] = {}, moved = false;
  busy = false;
  for (Message& m : messages) {
    bool& before = begun[m.send][m.peer];
    if (m.left == 0 || before) continue;
    before = busy = true;
    moved |= m.send ? send_some(comm, m) : receive_some(comm, m);
  }
  return moved;
}

}  // namespace

void* host_view(const void* p) {
  static const auto view =
      reinterpret_cast<void* (*)(const void*)>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "flotilla_standin_host_view"));
  return view(p);
}

void run(Comm& comm, const Collective& c) {
  const std::uint64_t ordinal = begin(comm);
  if (ordinal == 0 || !agree(comm, c)) return;
  const bool wrong = has_fault("wrong", comm, ordinal);
  const auto* from = static_cast<const char*>(host_view(c.from));
  auto* to = static_cast<char*>(host_view(c.to));
  const std::size_t size = width(c.type), step = chunk / size;
  const int parts = c.kind == Kind::reduce_scatter ? comm.size : 1;
  for (int part = 0; part < parts; ++part)
    for (std::size_t i = 0; i < c.count; i += step) {
      const std::size_t n = std::min(step, c.count - i), at = (static_cast<std::size_t>(part) * c.count + i) * size;
      const bool whole = phase(comm, from + at, n * size, [&] {
        if (c.kind == Kind::all_gather)
          for (int r = 0; r < comm.size; ++r)
            std::memcpy(to + (static_cast<std::size_t>(r) * c.count + i) * size, comm.shared->data[r], n * size);
        else if (c.kind == Kind::all_reduce || part == comm.rank)
          reduce(comm, to + i * size, n, c.type, wrong && i == 0);
      });
      if (!whole) return;
    }
}

void run(Comm& comm, std::vector<Message> messages) {
  const std::uint64_t ordinal = begin(comm);
  if (ordinal == 0) return;
  const std::vector<Message> whole = messages;
  for (bool busy = true; busy;)
    if (!move_some(comm, messages, busy) && busy && !pause(comm)) return;
  for (const Message& m : messages) {
    const auto peer = static_cast<std::size_t>(m.peer);
    while (m.send && (unplugged || comm.shared->mail[comm.rank][m.peer].taken.load(std::memory_order_acquire) < comm.sent[peer]))
      if (!pause(comm)) return;
  }
  if (has_fault("wrong", comm, ordinal))
    for (const Message& m : whole)
      if (!m.send) *m.at = static_cast<char>(*m.at ^ 1);
}

}  // namespace flotilla::standin::nccl
