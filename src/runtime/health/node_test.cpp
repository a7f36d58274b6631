#include "flotilla/health/node_test.hpp"

#include <algorithm>

#include "cores.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/base/time_shares.hpp"
#include "flotilla/health/disk.hpp"
#include "flotilla/health/other_work.hpp"
#include "flotilla/probe/device.hpp"
#include "flotilla/probe/known_step.hpp"
#include "flotilla/topology/threads.hpp"
#include "flotilla/topology/topology.hpp"
#include "gpus.hpp"
#include "node_tests.hpp"

namespace flotilla::health {
namespace {

using bench::NodeReport;

// Weights of the tests, of which the last take what the others leave.
constexpr double for_cores = 0.2, for_step = 0.05, for_memory = 0.05, for_gpus = 0.3, for_disk = 0.3, for_products = 0.15;

void measure_memory(NodeTests& tests, const topology::NodeTopology& node, int threads) {
  tests.run("memory bandwidth", [&] {
    const Bytes size = probe::triad_size(node.last_level_cache, node.memory_available);
    tests.add("memory_bandwidth", probe::memory_bandwidth(threads, size).value);
  });
}

/// A precision that this processor does not multiply in is no fault of the node.
bool multiplies_in(Precision precision) {
  try {
    const probe::KnownStep step{precision, 1};
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unavailable) throw;
    return false;
  }
}

void measure_products(NodeTests& tests, Precision precision, int threads, Seconds budget) {
  tests.run("matrix products, " + to_string(precision), [&] {
    if (multiplies_in(precision))
      tests.add(precision == Precision::fp32 ? "matmul_fp32" : "matmul_bf16", probe::peak(precision, threads, budget).value);
  });
}

void run_known_step(NodeTests& tests, NodeReport& report, Precision precision, int threads, Seconds budget) {
  const auto name = text(to_string(precision), ", ", threads, threads == 1 ? " thread" : " threads");
  tests.run("known-answer step, " + name, [&] {
    if (!multiplies_in(precision)) return;
    probe::KnownStep step{precision, threads};
    const auto [answer, best] = repeat(step, name, budget);
    report.answers.push_back(answer);
    if (precision == Precision::fp32) tests.add("step", best.value);
  });
}

void measure_disk(NodeTests& tests, NodeReport& report, const NodeTest& test, Seconds budget) {
  tests.run("disk", [&] {
    const auto rates = test_disk(test.disk, test.disk_size, budget);
    tests.add("disk_write", rates.write.value);
    tests.add("disk_read", rates.read.value);
    report.clock_error = rates.clock_error;
  });
}

}  // namespace

RepeatedStep repeat(probe::KnownStep& step, const std::string& name, Seconds budget) {
  constexpr int fewest = 2, most = 5;
  const Seconds end = now() + budget;
  const auto first = step.run();
  RepeatedStep repeated{{name, hex(first.digest)}, first.wall};
  for (int run = 1; run < fewest || (run < most && now() < end); ++run) {
    const auto again = step.run();
    repeated.best = std::min(repeated.best, again.wall);
    if (again.digest != first.digest) repeated.answer.digest = hex(again.digest) + ", not always";
  }
  return repeated;
}

NodeReport test_node(const NodeTest& test) {
  const Seconds begin = now();
  NodeReport report = identify(test);
  const auto node = topology::this_node();
  const int threads = topology::effective_cpus(static_cast<int>(node.usable.size()), node.limits.cpus);
  NodeTests tests{test, report};
  TimeShares shares{begin + test.budget, {for_cores, for_step, for_step, for_memory, for_gpus, for_disk, for_products, for_products}};
  OtherWork others;
  tests.run("hardware threads", [&] { report.cores = test_cores(node.usable, shares.next()); });
  for (const auto precision : {Precision::fp32, Precision::bf16}) run_known_step(tests, report, precision, threads, shares.next());
  shares.next();  // it takes what it takes
  measure_memory(tests, node, threads);
  others.leave_out([&] {  // drivers of GPUs, and the kernel that writes
    test_gpus(tests, report, shares.next());
    measure_disk(tests, report, test, shares.next());
  });
  for (const auto precision : {Precision::fp32, Precision::bf16}) measure_products(tests, precision, threads, shares.next());
  report.others = others.share().value_or(-1);
  report.done = true;
  report.doing.clear();
  return report;
}

}  // namespace flotilla::health
