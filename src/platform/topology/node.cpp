#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>

#include "facts.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"

namespace flotilla::topology {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file{path};
  std::ostringstream contents;
  contents << file.rdbuf();
  return contents.str();
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

/// A line of /proc/meminfo, "MemAvailable:   12345 kB"; 0 when it is not there.
Bytes memory_line(const std::string& meminfo, const std::string& key) {
  const auto at = meminfo.find(key + ":");
  if (at == std::string::npos) return {};
  return Bytes{1024} * std::strtoll(meminfo.c_str() + at + key.size() + 1, nullptr, 10);
}

void add_memory(NodeTopology& node) {
  const std::string meminfo = read_text("/proc/meminfo");
  const Bytes total = memory_line(meminfo, "MemTotal");
  if (total > Bytes{}) node.memory_total = total;
  const Bytes available = memory_line(meminfo, "MemAvailable");
  node.memory_available = available > Bytes{} ? available : node.memory_total;
  if (node.limits.memory == Bytes{}) return;
  const Bytes left = std::max(Bytes{}, node.limits.memory - node.limits.memory_used);
  node.memory_available = std::min(node.memory_available, left);
}

/// Of the element "topology" that the file begins with; "" where it names none.
std::string format_of(const std::string& path) {
  constexpr std::size_t beginning = 4096;  // of a file that may be anything
  std::ifstream file{path};
  std::string words(beginning, '\0');
  file.read(words.data(), static_cast<std::streamsize>(words.size()));
  const std::string key = "<topology version=\"";
  const auto at = words.find(key), end = at == words.npos ? at : words.find('"', at + key.size());
  return end == words.npos ? "" : printable(words.substr(at + key.size(), end - at - key.size()).substr(0, 20));
}

/// Whether a file's format is of a later library than the one that is loaded.
bool is_newer(const std::string& format) {
  unsigned major = 0;
  std::from_chars(format.data(), format.data() + format.size(), major);
  return major > hwloc_get_api_version() >> 16;
}

}  // namespace

NodeTopology this_node() {
  const Topology topology = new_topology();
  FLOTILLA_REQUIRE(hwloc_topology_load(topology.get()) == 0, ErrorKind::unavailable,
                   "hwloc cannot describe this machine: ", std::strerror(errno),
                   "; check HWLOC_XMLFILE and HWLOC_SYNTHETIC if they are set");
  NodeTopology node = facts(topology.get());
  node.host = host_name();
  node.limits = read_limits(read_text("/proc/self/cgroup"), "/sys/fs/cgroup");
  add_memory(node);
  return node;
}

NodeTopology load_xml(const std::string& path) {
  const Topology topology = new_topology();
  const auto version = format_of(path);
  FLOTILLA_REQUIRE(!is_newer(version), ErrorKind::bad_input, path, ": a topology of hwloc's format ", version, ", which ",
                   library_version(), " does not read; write it with `lstopo --export-xml-flags v2 node.xml`");
  const bool loaded = hwloc_topology_set_xml(topology.get(), path.c_str()) == 0 && hwloc_topology_load(topology.get()) == 0;
  FLOTILLA_REQUIRE(loaded, ErrorKind::bad_input, path,
                   ": not a topology that hwloc can read; expected a file written by `lstopo node.xml`");
  return facts(topology.get());
}

std::string library_version() {
  const unsigned v = hwloc_get_api_version();  // of the library that is loaded; its own version is known only to its header
  return text("hwloc API ", v >> 16, ".", (v >> 8) & 0xff, ".", v & 0xff);
}

}  // namespace flotilla::topology
