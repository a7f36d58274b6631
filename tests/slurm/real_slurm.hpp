#pragma once
#include <gtest/gtest.h>

#include <cstdio>
#include <iostream>
#include <stdexcept>

#include "run/training.hpp"

/// The cluster of cluster.sh, and jobs on it, as a test sees them.
namespace flotilla::tests {

inline double wall_clock() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// Runs a command; its standard output, without the last line end. A failure of the test where it fails.
inline std::string output_of(const Words& command, bool may_fail = false) {
  Process process{command, folder()};
  const auto ended = process.wait();
  if (!may_fail) {
    EXPECT_EQ(ended.code, 0) << ::testing::PrintToString(command) << "\n" << ended.out << ended.err;
  }
  return ended.out.substr(0, ended.out.find_last_not_of('\n') + 1);
}

// Without the mark by which Process finds what it has started: jobs and daemons outlive the command that starts them.
inline Words cluster(const Words& words) {
  return Words{"env", "-u", "TEST_PROCESS_MARK", FLOTILLA_CLUSTER, FLOTILLA_CLUSTER_FOLDER} + words;
}
inline Words on(const std::string& node, const Words& command) { return cluster({"on", node}) + command; }
inline std::string on_head(const Words& command, bool may_fail = false) { return output_of(on("head", command), may_fail); }

/// A batch job of the cluster. Ends with the test.
class BatchJob {
 public:
  /// Submits one of slurm/*.sh with environment variables for its site facts.
  BatchJob(const Words& sbatch_options, const std::string& script, const Words& environment) {
    const auto submitted = on_head(Words{"env", "FLOTILLA_SCRIPTS=" FLOTILLA_SCRIPTS_FOLDER, "FLOTILLA=" FLOTILLA_BINARY} + environment +
                                   Words{"sbatch", "--parsable", "--chdir=" + folder().string(), "--output=" + log_.string()} +
                                   sbatch_options + Words{text(FLOTILLA_SCRIPTS_FOLDER, "/", script)});
    id_ = submitted.substr(0, submitted.find(';'));
    std::ifstream lines{fs::path{FLOTILLA_SCRIPTS_FOLDER} / script};
    for (std::string line; std::getline(lines, line);) components_ += line == "#SBATCH hetjob";
  }
  BatchJob(const BatchJob&) = delete;
  BatchJob& operator=(const BatchJob&) = delete;
  ~BatchJob() { cancel(); }

  const std::string& id() const { return id_; }
  std::string log() const { return content(log_); }
  /// The log without the lines of single steps.
  std::string story() const {
    std::string told;
    std::istringstream lines{log()};
    for (std::string line; std::getline(lines, line);)
      if (line.rfind("step ", 0) != 0) told += line + "\n";
    return told;
  }
  bool said(const std::string& words) const { return log().find(words) != std::string::npos; }

  /// "R", "PD", "CG", "CD", ...; of the job's first component.
  std::string state() const { return first_line(on_head({"squeue", "-h", "-t", "all", "-j", id_, "-o", "%t"}, true)); }
  std::string reason() const { return first_line(on_head({"squeue", "-h", "-t", "all", "-j", id_, "-o", "%r"}, true)); }
  /// That the job has now.
  int nodes() const { return std::atoi(first_line(on_head({"squeue", "-h", "-t", "all", "-j", id_, "-o", "%D"}, true)).c_str()); }
  /// Those of one of its components, while it runs: which ones it was given is Slurm's choice.
  Words nodes_of(int component) const {
    Words found;
    const std::string ask = "squeue -h -t R -j \"$1\" -o '%A %N' | sed -n \"s/^$2 //p\" | xargs -r -n1 scontrol show hostnames";
    const auto list = [&] {
      std::istringstream names{on_head({"sh", "-c", ask, "-", id_, std::to_string(std::stoi(id_) + component)}, true)};
      for (std::string name; std::getline(names, name);) found.push_back(name);
      return !found.empty();
    };
    if (!until(list, Milliseconds{200})) throw std::runtime_error{"job " + id_ + " has no nodes"};
    return found;
  }
  int components() const { return components_; }
  int restarts() const {
    const auto shown = on_head({"scontrol", "show", "job", "-o", id_});
    const auto at = shown.find("Restarts=");
    return at == std::string::npos ? -1 : std::atoi(shown.c_str() + at + 9);
  }

  /// Waits for `condition`, releasing the job whenever it is held: a loss that no test has caused (Open MPI 4.1.4 sometimes crashes while
  /// it connects) is one more ending to recover from.
  template <class Condition>
  bool waits_until(Condition condition) {
    return until([&] { return condition() || (let_go(), false); }, Milliseconds{200});
  }

  /// Whether it was over when it was last looked at while waiting: nobody starts it again.
  bool over() const { return over_; }
  /// Lets so many seconds pass.
  void waits(double seconds) {
    const auto end = wall_clock() + seconds;
    waits_until([&] { return wall_clock() >= end; });
  }

  /// Seconds between two times in which Slurm had not given the job, all of it, its nodes; as far as it was watched.
  double held_within(double from, double to) const {
    double sum = 0;
    for (const auto& [begin, end] : not_running_) sum += std::max(0.0, std::min(end, to) - std::max(begin, from));
    return sum;
  }

  void cancel() {
    if (id_.empty()) return;
    on_head({"scancel", id_}, true);
    until([&] { return on_head({"squeue", "-h", "-j", id_, "-o", "%t"}, true).empty(); }, Milliseconds{200});
  }

  /// Until the batch script has ended for good.
  ::testing::AssertionResult completes() {
    std::string last;
    const bool over = waits_until([&] { return (last = state()) == "CD" || last == "F" || last == "CA" || last == "NF"; });
    return over && last == "CD" ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << "state " << last << "\n" << log();
  }

 private:
  /// A requeued job is held for two minutes; shortened to two seconds, for each component from when Slurm has let go of its nodes. At once
  /// would be refused by the node: its credential is revoked.
  void let_go() {
    const auto now = std::chrono::steady_clock::now();
    const double looked = std::exchange(looked_, wall_clock());
    bool runs = true;
    std::istringstream components{on_head({"squeue", "-h", "-t", "all", "-j", id_, "-o", "%A|%t|%r|%N|"}, true)};
    for (std::string line; std::getline(components, line);) {
      const auto job = line.substr(0, line.find('|'));
      const auto state = line.substr(job.size() + 1);
      if (job == id_) over_ = std::set<std::string>{"CD", "CA", "F", "NF", "TO"}.contains(state.substr(0, state.find('|')));
      runs = runs && state.rfind("R|", 0) == 0;
      if (state != "PD|BeginTime||")
        held_.erase(job);
      else if (now - held_.emplace(job, now).first->second >= Milliseconds{2000})
        on_head({"scontrol", "update", "jobid=" + job, "StartTime=now"}, true);  // may start meanwhile, with the components before
    }
    if (!runs) not_running_.emplace_back(looked > 0 ? looked : looked_, looked_);
  }
  static std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }
  static int next() {
    static int count = 0;
    return ++count;
  }
  fs::path log_ = folder() / text("job-", next(), ".log");
  std::string id_;
  int components_ = 1;
  std::map<std::string, std::chrono::steady_clock::time_point> held_;  ///< components, since when
  bool over_ = false;
  double looked_ = 0;
  std::vector<std::pair<double, double>> not_running_;
};

/// Skips, saying why, where there is no cluster.
inline bool no_cluster() {
  if (fs::exists(fs::path{FLOTILLA_CLUSTER_FOLDER} / "run" / "room")) return false;
  std::cout << output_of({FLOTILLA_CLUSTER, "check"}, true) << "\n(the fixture slurm_cluster_up_* brings it up)\n";
  return true;
}

/// kill -9 of the ranks of one node, of those named the first that has any: where a job's ranks are is Slurm's choice, and between two
/// launches there are none.
inline void kill_ranks_of_one(const Words& nodes) {
  const bool killed = until([&] {
    return std::ranges::any_of(nodes, [](const std::string& node) {
      Process process{on(node, {"pkill", "-KILL", "-x", "flotilla"}), folder()};
      return process.wait().code == 0;
    });
  });
  EXPECT_TRUE(killed) << "no rank is anywhere";
}

/// Every node runs jobs again, whatever the test before has done.
inline void mend_cluster() {
  for (int n = 1; n <= 6; ++n) output_of(cluster({"cable", text("n", n), "in"}), true);
  const auto all_idle = [] {
    bool idle = true;
    for (int n = 1; n <= 6; ++n) {
      const auto node = text("n", n);
      if (on_head({"sinfo", "-h", "-n", node, "-p", "urgent", "-o", "%t"}, true) == "idle") continue;
      on_head({"scontrol", "update", "nodename=" + node, "state=resume"}, true);  // refused where it is only about to be idle
      idle = false;
    }
    return idle;
  };
  EXPECT_TRUE(until(all_idle, Milliseconds{500})) << on_head({"sinfo", "-N"}, true);
}

}  // namespace flotilla::tests
