#pragma once
#include <string>
#include <utility>

#include "flotilla/base/error.hpp"
#include "flotilla/health/node_test.hpp"
#include "flotilla/probe/known_step.hpp"

namespace flotilla::health {

/// Tests of a node, one after the other: each is told before it begins, and one that cannot be made is a failure of the report.
class NodeTests {
 public:
  NodeTests(const NodeTest& test, bench::NodeReport& report) : test_{test}, report_{report} {}

  /// Whether it could be made.
  template <class Body>
  bool run(const std::string& name, Body body) {
    report_.doing = name;
    if (test_.progress) test_.progress(report_);
    try {
      body();
    } catch (const Error& error) {
      report_.failures.push_back({name, error.what()});
      return false;
    }
    return true;
  }
  void add(std::string figure, double value) { report_.figures.push_back({std::move(figure), value}); }

 private:
  const NodeTest& test_;
  bench::NodeReport& report_;
};

/// The bits of a step that was run two to five times, as `budget` allows, and the quickest run.
struct RepeatedStep {
  bench::AnswerDigest answer;
  Seconds best{};
};
RepeatedStep repeat(probe::KnownStep&, const std::string& name, Seconds budget);

}  // namespace flotilla::health
