#pragma once
#include "run/training.hpp"

namespace flotilla::tests {

/// Hosts that are namespaces (nodes.sh), one for each rank, for as long as this lives.
class Hosts {
 public:
  explicit Hosts(int ranks) : ranks_{ranks}, prefix_{text("ft", ::getpid() % 10000, "x")} {
    const auto made = nodes({"up", prefix_, std::to_string(ranks)});
    if (made.code != 0) why_not_ = made.out + made.err;
    agent_ = write(folder() / "agent.sh", text("#!/bin/sh\nexec ", FLOTILLA_NODES, " on \"$@\"\n"));
    fs::permissions(agent_, fs::perms::owner_all);
  }
  ~Hosts() { nodes({"down", prefix_}); }
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  bool there() const { return why_not_.empty(); }
  const std::string& why_not() const { return why_not_; }
  std::string host(int rank) const { return text(prefix_, rank + 1); }
  void link(int rank, const char* state) const { EXPECT_EQ(nodes({"link", host(rank), state}).code, 0); }
  /// Between two hosts, both ways; false where the kernel cannot.
  bool slow(int a, int b, const std::string& rate) const {
    return nodes({"slow", host(a), host(b), rate}).code == 0 && nodes({"slow", host(b), host(a), rate}).code == 0;
  }
  /// mpirun on a host without ranks; one rank on each of the others.
  Words launcher() const {
    std::string all;
    for (int r = 0; r < ranks_; ++r) all += (r > 0 ? "," : "") + host(r);
    auto words = Words{FLOTILLA_NODES, "on", prefix_ + "0"} + mpirun(ranks_);
    return words +
           Words{"--mca", "plm_rsh_agent", agent_.string(), "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "-H", all, FLOTILLA_BINARY};
  }

 private:
  static Ended nodes(const Words& words) {
    Process process{Words{FLOTILLA_NODES} + words, folder()};
    return process.wait();
  }

  int ranks_;
  std::string prefix_, why_not_;
  fs::path agent_;
};

}  // namespace flotilla::tests
