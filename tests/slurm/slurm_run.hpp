#pragma once
#include <cmath>
#include <ctime>
#include <iomanip>

#include "flotilla/files/profile_file.hpp"
#include "flotilla/journal/outcome.hpp"
#include "slurm/real_slurm.hpp"

namespace flotilla::tests {

/// A run under one of the job scripts: what it has logged, and how long things took.
class SlurmRun {
 public:
  static constexpr int save_every = 20;  // steps

  /// Where the run directory is: on the disk of the machine, or on the cluster's own, which is small.
  enum class Disk { machine, cluster };

  /// `plan`: lines of the job file. Little memory keeps the probe short: it is what the size of its arrays goes by.
  SlurmRun(const std::string& name, std::int64_t steps, const std::string& plan, int batch = 32, Disk disk = Disk::machine)
      : on_nodes_{disk == Disk::machine ? folder() / name : fs::path{FLOTILLA_CLUSTER_FOLDER} / "disk" / name},
        run_{disk == Disk::machine ? on_nodes_ : fs::path{output_of(cluster({"disk", "path"}))} / name},
        job_{folder() / (name + ".toml")},
        plan_{plan},
        batch_{batch} {
    end_after(steps);
  }

  /// What the next launch reads in the job file.
  void end_after(std::int64_t steps) {
    steps_ = steps;
    write(job_, text("[model]\nname = \"gpt2-tiny\"\n[data]\ntrain = [\"", text_file().string(),
                     "\"]\nformat = \"text\"\n[training]\nlength = ", length, "\nglobal-batch = ", batch_,
                     "\nlearning-rate = 3e-4\nminimum-learning-rate = 3e-4\nsteps = ", steps, "\n[plan]\n", plan_,
                     "\n[device]\nmemory = \"256MiB\"\n[run]\nthreads = 1\n[probe]\nbudget = \"500ms\"\n[checkpoint]\nevery = ", save_every,
                     "\n"));
  }

  /// What the next launch reads of the plan.
  void plan_by(const std::string& lines) {
    plan_ = lines;
    end_after(steps_);
  }

  const fs::path& directory() const { return run_; }
  Words environment(const Words& more = {}) const {
    return Words{"FLOTILLA_RUN=" + on_nodes_.string(), "FLOTILLA_JOB=" + job_.string()} + more;
  }

  journal::Metrics metrics() const { return fs::exists(run_ / "metrics.jsonl") ? journal::read_metrics(run_) : journal::Metrics{}; }
  int incarnation() const {
    const auto starts = metrics().starts;
    return starts.empty() ? 0 : starts.back().incarnation;
  }
  /// Steps that this incarnation has done.
  std::int64_t steps_of(int incarnation) const {
    std::int64_t count = 0;
    for (const auto& step : metrics().steps) count += step.incarnation == incarnation;
    return count;
  }
  /// What has happened last, read once.
  struct Latest {
    int incarnation = 0;
    std::int64_t steps = 0;  ///< of that incarnation
    double time = 0;         ///< of the last step of all
  };
  Latest latest() const {
    Latest now;
    const auto all = metrics();
    if (!all.starts.empty()) now.incarnation = all.starts.back().incarnation;
    for (const auto& step : all.steps) now.steps += step.incarnation == now.incarnation;
    if (!all.steps.empty()) now.time = all.steps.back().time;
    return now;
  }
  /// Steps of `before` that its successor had to do again.
  std::int64_t lost_steps(int before) const {
    std::int64_t done = 0, from = -1;
    const auto all = metrics();
    for (const auto& step : all.steps)
      if (step.incarnation == before) done = std::max(done, step.step);
    for (const auto& start : all.starts)
      if (start.incarnation > before && from < 0) from = start.step;
    return done - from;
  }

  /// Every step once and in order as far as the unbroken run goes (the learning rate is constant, so that runs of unlike lengths compare),
  /// each with the loss that the same samples gave an unbroken run: to 1e-5 while the plan was the first one, to `under_other_plans` of it
  /// after.
  void expect_the_losses_of(const std::map<std::int64_t, double>& unbroken, double under_other_plans = 1e-3) const {
    const auto history = losses(run_);
    ASSERT_GE(history.size(), std::min(static_cast<std::size_t>(steps_), unbroken.size()));
    std::int64_t next = 1;
    double largest = 0;
    const auto all = metrics();
    std::int64_t other_plan = steps_ + 1;
    for (const auto& start : all.starts)
      if (start.plan != all.starts.front().plan) other_plan = std::min(other_plan, start.step + 1);
    for (const auto& [step, loss] : history) {
      ASSERT_EQ(step, next++) << "no step is missing";
      if (!unbroken.contains(step)) continue;
      const double bound = step < other_plan ? 1e-5 : under_other_plans * unbroken.at(step);
      EXPECT_NEAR(loss, unbroken.at(step), bound) << "step " << step;
      largest = std::max(largest, std::abs(loss / unbroken.at(step) - 1));
    }
    std::cout << "losses: " << history.size() << " steps, at most " << largest << " of the unbroken run's off\n" << std::flush;
  }

 private:
  const fs::path on_nodes_, run_, job_;  ///< run_: the same folder as this process sees it
  std::string plan_;
  const int batch_;
  std::int64_t steps_ = 0;
};

/// What one ending took, in seconds; negative: does not apply.
struct EndingTimes {
  std::string termination;
  double to_checkpoint = -1;  ///< from the event to the checkpoint's commit
  double to_outcome = -1;     ///< from the event to the run's last word
  double to_first_step = -1;  ///< from the next launch of srun to the first step done
  std::int64_t lost = 0;      ///< steps done again
};

/// The time of the last "launching" line of the script's log.
inline double last_launch(const std::string& log) {
  const auto at = log.rfind(": launching");
  if (at == std::string::npos) return -1;
  const std::string mark = "flotilla.sh: ";
  const auto begin = log.rfind(mark, at) + mark.size();
  std::tm parts{};
  double fraction = 0;
  std::istringstream in{log.substr(begin, at - begin)};
  in >> std::get_time(&parts, "%Y-%m-%d %H:%M:%S") >> fraction;
  parts.tm_isdst = -1;
  return static_cast<double>(std::mktime(&parts)) + fraction;
}

inline void print(const std::vector<EndingTimes>& all) {
  const auto shown = [](double seconds) {
    std::ostringstream out;
    if (seconds >= 0) out << std::fixed << std::setprecision(1) << seconds << " s";
    return out.str();
  };
  std::cout
      << "| ending | event to committed checkpoint | event to outcome | launch to first step | iterations lost |\n|---|---|---|---|---|\n";
  for (const auto& t : all)
    std::cout << "| " << t.termination << " | " << shown(t.to_checkpoint) << " | " << shown(t.to_outcome) << " | " << shown(t.to_first_step)
              << " | " << t.lost << " |\n";
  std::cout << std::flush;
}

}  // namespace flotilla::tests
