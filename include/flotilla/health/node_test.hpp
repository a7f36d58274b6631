#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "flotilla/bench/report.hpp"

/// One node by itself: what it is, how fast it is, whether it computes right. No other node takes part and MPI is not started.
namespace flotilla::health {

struct NodeTest {
  std::string host;  ///< as the batch system calls this node; "": its own name
  std::string partition;
  std::filesystem::path disk;  ///< a folder of the file system that checkpoints go to; made where it is not there
  Bytes disk_size{256 << 20};  ///< written and read there, and removed
  Seconds budget{20};          ///< aim for all tests
  /// Told before each test, with what is known so far.
  std::function<void(const bench::NodeReport&)> progress;
};

/// Runs every test. One that cannot be made becomes a Failure of the report. The whole node should rest: all hardware threads that this
/// process may use are at work. Local.
bench::NodeReport test_node(const NodeTest&);

/// Properties of this node as its kernel and hwloc tell them, without measuring.
bench::NodeReport identify(const NodeTest&);

}  // namespace flotilla::health
