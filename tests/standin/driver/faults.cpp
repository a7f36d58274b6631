#include <array>
#include <cstdlib>
#include <random>
#include <sstream>

#include "standin.hpp"

namespace flotilla::standin {
namespace {

struct Fault {
  Kind kind;
  int at;
  Result result;
};

constexpr std::array<const char*, 8> kinds{"init", "alloc", "launch", "copy", "query", "hang", "lost", "forget"};

std::vector<Fault> planned() {
  std::vector<Fault> faults;
  std::istringstream in{setting("FLOTILLA_STANDIN_FAULTS", "")};
  for (std::string word; std::getline(in, word, ',');) {
    const auto at = word.find('@'), is = word.find('=');
    for (std::size_t k = 0; k < kinds.size(); ++k)
      if (word.substr(0, at) == kinds[k])
        faults.push_back(
            {static_cast<Kind>(k), std::atoi(word.c_str() + at + 1), is == std::string::npos ? 0 : std::atoi(word.c_str() + is + 1)});
  }
  return faults;
}

// Relaxed: a count must not order one stream's memory before another's, or TSan could not tell what events leave unordered.
std::array<std::atomic<int>, kinds.size()> counts{};
std::atomic<Result> sticky{api::success};

int count(Kind kind) { return counts[static_cast<std::size_t>(kind)].fetch_add(1, std::memory_order_relaxed) + 1; }

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all = planned();
  return all;
}

}  // namespace

std::string setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

void stick(Result result) { sticky.store(result, std::memory_order_relaxed); }
Result stuck() { return sticky.load(std::memory_order_relaxed); }

Result fault(Kind kind) {
  const int nth = count(kind), operation = count(Kind::lost);
  for (const Fault& f : faults()) {
    if (f.kind == Kind::lost && operation >= f.at) stick(f.result);
    if (f.kind != kind || f.at != nth) continue;
    if (f.result < api::illegal_address) return f.result;
    stick(f.result);
  }
  return stuck();
}

/// For the stand-in of NVML.
extern "C" __attribute__((visibility("default"))) int flotilla_standin_stuck() { return stuck(); }

bool happens(Kind kind) {
  const int nth = count(kind);
  for (const Fault& f : faults())
    if (f.kind == kind && f.at == nth) return true;
  return false;
}

void delay() {
  static const int most = std::atoi(setting("FLOTILLA_STANDIN_DELAY_US", "0").c_str());
  if (most <= 0) return;
  thread_local std::minstd_rand random{static_cast<unsigned>(std::hash<std::thread::id>{}(std::this_thread::get_id()))};
  std::this_thread::sleep_for(std::chrono::microseconds(random() % static_cast<unsigned>(most)));
}

}  // namespace flotilla::standin
