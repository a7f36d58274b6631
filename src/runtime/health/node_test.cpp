#include "flotilla/health/node_test.hpp"

#include <algorithm>

#include "cores.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"
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

// Parts of the budget; the rest is for what has no clock of its own.
constexpr double for_cores = 0.2, for_step = 0.05, for_products = 0.15, for_disk = 0.3, for_gpus = 0.3;

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

void measure_disk(NodeTests& tests, NodeReport& report, const NodeTest& test) {
  tests.run("disk", [&] {
    const auto rates = test_disk(test.disk, test.disk_size, test.budget * for_disk);
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
  NodeReport report = identify(test);
  const auto node = topology::this_node();
  const int threads = topology::effective_cpus(static_cast<int>(node.usable.size()), node.limits.cpus);
  NodeTests tests{test, report};
  const OtherWork others;
  tests.run("hardware threads", [&] { report.cores = test_cores(node.usable, test.budget * for_cores); });
  for (const auto precision : {Precision::fp32, Precision::bf16}) run_known_step(tests, report, precision, threads, test.budget * for_step);
  measure_memory(tests, node, threads);
  for (const auto precision : {Precision::fp32, Precision::bf16}) measure_products(tests, precision, threads, test.budget * for_products);
  report.others = others.share().value_or(-1);  // before the disk, which has the kernel write, and before drivers of GPUs
  test_gpus(tests, report, test.budget * for_gpus);
  measure_disk(tests, report, test);
  report.done = true;
  report.doing.clear();
  return report;
}

}  // namespace flotilla::health
