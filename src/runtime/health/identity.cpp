#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "flotilla/base/error.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/utc.hpp"
#include "flotilla/compute/backend.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/gpu/driver.hpp"
#include "flotilla/health/node_test.hpp"
#include "flotilla/probe/type_names.hpp"
#include "flotilla/topology/topology.hpp"
#include "node_files.hpp"

namespace flotilla::health {
namespace {

namespace fs = std::filesystem;
namespace property = bench::property;

std::string or_none(const std::string& value) { return value.empty() ? property::none : value; }

std::string limit(__rlimit_resource resource, bool bytes) {
  rlimit value{};
  if (getrlimit(resource, &value) != 0) return "unknown";
  if (value.rlim_cur == RLIM_INFINITY) return property::unlimited;
  return bytes ? to_string(Bytes{static_cast<std::int64_t>(value.rlim_cur)}) : text(value.rlim_cur);
}

std::string shared_memory() {
  struct statvfs facts {};
  if (statvfs("/dev/shm", &facts) != 0) return property::none;
  return to_string(Bytes{static_cast<std::int64_t>(facts.f_blocks * facts.f_frsize)});
}

/// Entries of a folder of /sys, "name detail" each.
template <class Detail>
std::string entries(const char* folder, Detail detail) {
  std::string all;
  for (const auto& name : files::names_in(folder).value_or(std::vector<std::string>{}))
    if (const std::string words = detail(fs::path{folder} / name); !words.empty()) all += text(all.empty() ? "" : ", ", name, " ", words);
  return or_none(all);
}

/// Cards only: bridges, tunnels and loopback have no device behind them.
std::string network() {
  return entries("/sys/class/net", [](const fs::path& card) {
    std::error_code ignored;
    if (!fs::exists(card / "device", ignored)) return std::string{};
    const auto speed = kernel_file(card / "speed");
    return text("mtu ", kernel_file(card / "mtu"), speed.empty() || speed.starts_with("-") ? "" : text(" ", speed, " Mbit/s"));
  });
}

std::string rdma_devices() {
  return entries("/sys/class/infiniband", [](const fs::path& device) { return or_none(kernel_file(device / "ports/1/rate")); });
}

std::string gpus() {
  try {
    std::map<std::string, int> counts;
    const auto found = gpu::presence();
    for (const auto& device : found.devices) ++counts[device.name];
    std::string all;
    for (const auto& [name, count] : counts) all += text(all.empty() ? "" : ", ", count, " x ", name);
    return all.empty() ? property::none : text(all, ", ", gpu::driver_name(found));
  } catch (const Error& error) {
    return text("not usable: ", error.what());
  }
}

/// What decides the bits of a step beside the processor.
std::string software() {
  compute::Setup setup;
  setup.model = model::built_in("gpt2-tiny");
  setup.length = setup.model.positions;
  try {
    return text(compute::make_backend(setup)->description(), "; g++ ", __VERSION__);
  } catch (const Error& error) {
    return text("not usable: ", error.what());
  }
}

std::string kernel() {
  utsname names{};
  return uname(&names) == 0 ? names.release : "unknown";
}

std::string frequency_limit() {
  const auto kilohertz = kernel_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq");
  return kilohertz.empty() ? "unknown" : text(kilohertz, " kHz");
}

std::string type_of(const topology::NodeTopology& node, const std::string& gpu_names) {
  const auto cpu = text(std::max(1, node.packages), " x ", probe::short_cpu_name(node.cpu_model));
  return gpu_names == property::none ? cpu : text(cpu, " + ", gpu_names.substr(0, gpu_names.rfind(',')));
}

bool kernel_says_synchronized() {
  timex clock{};
  const int state = adjtimex(&clock);
  return state >= 0 && state != TIME_ERROR;
}

}  // namespace

std::string kernel_file(const fs::path& path) {
  std::ifstream in{path};
  std::string line;
  std::getline(in, line);
  return line;
}

std::string chosen_word(const std::string& words) {
  const auto open = words.find('['), close = words.find(']');
  return open == words.npos || close == words.npos || close < open ? words : words.substr(open + 1, close - open - 1);
}

bench::NodeReport identify(const NodeTest& test) {
  const auto node = topology::this_node();
  const auto gpu_names = gpus();
  bench::NodeReport report;
  report.host = test.host.empty() ? node.host : test.host;
  report.partition = test.partition;
  report.type = type_of(node, gpu_names);
  report.measured_at = utc_now();
  report.properties = {{property::sockets, text(node.packages)},
                       {property::numa_nodes, text(node.numa_nodes)},
                       {property::cores, text(node.cores)},
                       {property::hardware_threads, text(node.processing_units)},
                       {property::usable_threads, text(node.usable.size())},
                       {"cpu quota", node.limits.cpus > 0 ? formatted("%.3g", node.limits.cpus) : property::none},
                       {"memory limit", node.limits.memory.count > 0 ? to_string(node.limits.memory) : property::none},
                       {"last-level cache", to_string(node.last_level_cache)},
                       {"kernel", kernel()},
                       {"governor", or_none(kernel_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))},
                       {"frequency limit", frequency_limit()},
                       {"transparent huge pages", or_none(chosen_word(kernel_file("/sys/kernel/mm/transparent_hugepage/enabled")))},
                       {"huge page pool", or_none(kernel_file("/proc/sys/vm/nr_hugepages"))},
                       {property::memlock, limit(RLIMIT_MEMLOCK, true)},
                       {"open files", limit(RLIMIT_NOFILE, false)},
                       {"stack", limit(RLIMIT_STACK, true)},
                       {"/dev/shm", shared_memory()},
                       {"network", network()},
                       {property::rdma, rdma_devices()},
                       {property::gpus, gpu_names},
                       {property::software, software()}};
  report.figures = {{"memory", static_cast<double>(node.memory_total.count)}};
  report.clock_synchronized = kernel_says_synchronized();
  return report;
}

}  // namespace flotilla::health
