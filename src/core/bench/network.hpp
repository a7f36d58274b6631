#pragma once
#include <map>
#include <string>
#include <vector>

#include "flotilla/bench/verdict.hpp"

namespace flotilla::bench {

/// What the report's links say: reasons by host, and what concerns no single node, by the name of what it concerns.
struct NetworkReasons {
  std::map<std::string, std::vector<Reason>> nodes;
  std::vector<NodeVerdict> others;
};
NetworkReasons judge_network(const BenchReport&);

}  // namespace flotilla::bench
