#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "flotilla/base/error.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/topology/threads.hpp"
#include "flotilla/topology/topology.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::topology::node_test {
namespace {

using flotilla::Bytes;
using flotilla::topology::load_xml;
using flotilla::topology::NodeTopology;
using flotilla::topology::this_node;

TEST(LoadXml, NodeWithAGpu) {
  const NodeTopology node = load_xml(FLOTILLA_TEST_DATA "/node-with-gpu.xml");
  EXPECT_EQ(node.host, "vm");
  EXPECT_EQ(node.cpu_model, "Intel(R) Xeon(R) Processor");
  EXPECT_EQ(node.packages, 1);
  EXPECT_EQ(node.numa_nodes, 1);
  EXPECT_EQ(node.cores, 2);
  EXPECT_EQ(node.processing_units, 2);
  EXPECT_EQ(node.usable, (std::vector<int>{0, 1}));
  EXPECT_EQ(node.last_level_cache, Bytes{110100480});
  EXPECT_EQ(node.memory_total, Bytes{12843552768});
  EXPECT_EQ(node.memory_available, node.memory_total);
  ASSERT_EQ(node.gpus.size(), 1u) << "disks and network cards are not GPUs";
  const auto& gpu = node.gpus.front();
  EXPECT_EQ(gpu.model, "NVIDIA A100-SXM4-40GB");
  EXPECT_EQ(gpu.vendor, "NVIDIA Corporation");
  EXPECT_EQ(gpu.bus_id, "0000:65:00.0");
  EXPECT_EQ(gpu.backend, "CUDA");
  EXPECT_EQ(gpu.memory, Bytes{std::int64_t{40} << 30});
  EXPECT_EQ(gpu.numa_node, 0);
  EXPECT_EQ(gpu.near, (std::vector<int>{0, 1}));
}

TEST(LoadXml, EveryGpuIsOnItsSideOfTheMachine) {
  const NodeTopology node = load_xml(FLOTILLA_TEST_DATA "/two-sockets-with-gpus.xml");
  ASSERT_EQ(node.gpus.size(), 3u);
  EXPECT_EQ(node.gpus[0].bus_id, "0000:17:00.0");
  EXPECT_EQ(node.gpus[0].numa_node, 0);
  EXPECT_EQ(node.gpus[0].near, (std::vector<int>{0, 1}));
  EXPECT_EQ(node.gpus[1].bus_id, "0000:a0:00.0");
  EXPECT_EQ(node.gpus[1].numa_node, 1);
  EXPECT_EQ(node.gpus[1].near, (std::vector<int>{2, 3}));
  EXPECT_EQ(node.gpus[2].numa_node, -1) << "its bus hangs on the whole machine";
  EXPECT_EQ(node.gpus[2].near, (std::vector<int>{0, 1, 2, 3}));
}

/// A file of hwloc's with some words replaced.
std::string changed(const flotilla::tests::TemporaryFolder& folder, const std::vector<std::pair<std::string, std::string>>& words) {
  std::ifstream file{FLOTILLA_TEST_DATA "/node-with-gpu.xml"};
  std::string xml{std::istreambuf_iterator<char>{file}, {}};
  for (const auto& [from, to] : words) {
    EXPECT_NE(xml.find(from), xml.npos) << from;
    for (auto at = xml.find(from); at != xml.npos; at = xml.find(from, at + to.size())) xml.replace(at, from.size(), to);
  }
  return folder.write("changed.xml", xml);
}

TEST(LoadXml, ArmCoresAreToldByTheirParts) {
  const flotilla::tests::TemporaryFolder folder;
  const auto model = [&](const std::string& maker, const std::string& part) {
    return load_xml(
               changed(folder, {{R"(<info name="CPUModel" value="Intel(R) Xeon(R) Processor"/>)",
                                 R"(<info name="CPUImplementer" value=")" + maker + R"("/><info name="CPUPart" value=")" + part + R"("/>)"},
                                {R"(name="Architecture" value="x86_64")", R"(name="Architecture" value="aarch64")"}}))
        .cpu_model;
  };
  EXPECT_EQ(model("0x41", "0xd4f"), "aarch64 0x41/0xd4f");  // Neoverse V2 (Grace)
  EXPECT_EQ(model("0x41", "0xd40"), "aarch64 0x41/0xd40");  // Neoverse V1 (Graviton 3)
  EXPECT_EQ(model("0x41", "0xd0c"), "aarch64 0x41/0xd0c");  // Neoverse N1 (Altra)
  EXPECT_EQ(model("0x48", "0xd01"), "aarch64 0x48/0xd01");  // Kunpeng 920
  EXPECT_EQ(model("0x46", "0x001"), "aarch64 0x46/0x001");  // A64FX
}

/// Virtual machines and containers often tell no cores; what stands in their place is of any type.
TEST(LoadXml, WhereNoCoresAreToldThreadsAreCounted) {
  const flotilla::tests::TemporaryFolder folder;
  for (const char* instead : {R"("Group" kind="1001" subkind="0")", R"("Group" kind="0")", R"("L2Cache" cache_size="262144" depth="2")",
                              R"("L1Cache" cache_size="32768" depth="1")", R"("Die")"}) {
    const auto node = load_xml(changed(folder, {{R"(<object type="Core")", text("<object type=", instead)}}));
    EXPECT_EQ(node.processing_units, 2) << instead;
    EXPECT_EQ(node.cores, 2) << instead;
  }
}

TEST(LoadXml, AFormatOfTheFutureIsNamed) {
  const flotilla::tests::TemporaryFolder folder;
  for (const std::string version : {"3.0", "3.1", "4.0", "10.2", "3"}) {  // hwloc 2 reads up to 2
    try {
      load_xml(changed(folder, {{R"(<topology version="2.0">)", text(R"(<topology version=")", version, R"(">)")}}));
      ADD_FAILURE() << version << " was accepted";
    } catch (const flotilla::Error& error) {
      EXPECT_NE(std::string{error.what()}.find("hwloc's format " + version), std::string::npos) << error.what();
    }
  }
}

TEST(LoadXml, BadFilesAreNamed) {
  const flotilla::tests::TemporaryFolder folder;
  const auto broken = folder.write("broken.xml", "<topology><object type=");
  for (const std::string& path : {broken, std::string{"no-such-file.xml"}}) {
    try {
      load_xml(path);
      ADD_FAILURE() << path << " was accepted";
    } catch (const flotilla::Error& error) {
      EXPECT_EQ(error.kind(), flotilla::ErrorKind::bad_input);
      EXPECT_NE(std::string{error.what()}.find(path), std::string::npos) << error.what();
    }
  }
  std::filesystem::remove(broken);
}

TEST(ThisNode, IsSane) {
  const NodeTopology node = this_node();
  char host[256] = {};
  ASSERT_EQ(gethostname(host, sizeof host - 1), 0);
  EXPECT_EQ(node.host, host);
  EXPECT_FALSE(node.cpu_model.empty());
  EXPECT_GE(node.packages, 1);
  EXPECT_GE(node.cores, node.packages);
  EXPECT_GE(node.processing_units, node.cores);
  EXPECT_TRUE(std::is_sorted(node.usable.begin(), node.usable.end()));
  EXPECT_GT(node.memory_total, Bytes{1 << 20});
  EXPECT_GT(node.memory_available, Bytes{});
  EXPECT_LE(node.memory_available, node.memory_total);
}

TEST(ThisNode, UsableFollowsTheBinding) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const NodeTopology all = this_node();
  EXPECT_EQ(all.usable.size(), static_cast<std::size_t>(CPU_COUNT(&before)));
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(all.usable.back()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const NodeTopology bound = this_node();
  EXPECT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(bound.usable, std::vector<int>{all.usable.back()});
  EXPECT_EQ(bound.processing_units, all.processing_units) << "binding does not shrink the machine";
}

TEST(LibraryVersion, NamesTheLibrary) { EXPECT_EQ(flotilla::topology::library_version().rfind("hwloc API 2.", 0), 0u); }

}  // namespace
}  // namespace flotilla::topology::node_test
