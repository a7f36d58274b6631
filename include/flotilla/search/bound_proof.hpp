#pragma once
#include <string>
#include <vector>

#include "flotilla/search/objective.hpp"

/// Why no plan of a pool is better than a bound, so that somebody else can check it: docs/formats/certificate.md.
namespace flotilla::search {

struct BoundProof {
  Goal goal = Goal::throughput;
  double bound = 0;    ///< of the objective; no plan of the space is below
  double seconds = 0;  ///< no plan of the space ends within; where the goal is not throughput: all must end within, 0: no limit says so
  int batch = 0, layers = 0;
  std::vector<std::string> types;

  std::vector<double> potentials;  ///< where the goal is not throughput: by layer boundary, 0 ... layers; not reached by stages: infinite

  /// What a plan may not have more of than there is; `use`: of one device, by type.
  struct Resource {
    std::string name;
    double available = 0;
    std::vector<double> use;
    double price = 0;  ///< of all that is available
  };

  /// Sequences that one replica of layers [first, last) can take within `seconds`, at most.
  struct Replica {
    int first = 0, last = 0, type = 0, tensor = 1;
    int alone = 0;     ///< if it is the stage's only one
    int one_host = 0;  ///< if all of the stage's stand on one host
    int many = 0;      ///< else
    int host = 1;      ///< devices of a host
  };

  /// Some of the plans. The cases together are all plans of the space.
  struct Case {
    std::string plans;       ///< in words
    double seconds = 0;      ///< none of them ends within
    int least_replicas = 1;  ///< of every stage
    double by_batch = 1;     ///< how much of a replica counts by the part of the batch that it takes; the rest by their least number
    std::vector<Resource> resources;
    std::vector<double> potentials;  ///< by layer boundary
    std::vector<Replica> replicas;
  };
  std::vector<Case> cases;  ///< where the goal is throughput

  /// What the objective counts of layers [first, last) on devices of a type, at least.
  struct Expense {
    int first = 0, last = 0, type = 0;
    double least = 0;
  };
  std::vector<Expense> expenses;  ///< where it is not
};

}  // namespace flotilla::search
