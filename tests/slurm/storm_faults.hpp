#pragma once
#include <functional>
#include <random>

#include "slurm/cluster_processes.hpp"
#include "slurm/slurm_run.hpp"

/// What the storm does to a run.
namespace flotilla::tests {

/// A fault returns from `strike` when it is over, all but what is to be mended when the run goes on without.
struct Fault {
  std::string name;
  int often = 1;            ///< in a storm that has all kinds
  bool brief = false;       ///< one of those of the short storm, which stand for the others: one of each place, with little waiting
  bool ends_launch = true;  ///< else the run may go on as it is
  std::function<void()> strike = {};
  std::function<void()> mend = [] {};
  std::function<bool()> over = [] { return true; };  ///< more that has to be before the next
};

/// The kinds of faults, for one job and its run.
class StormFaults {
 public:
  /// `nodes`: that the job may have, its batch host first.
  StormFaults(const SlurmRun& run, BatchJob& job, const Words& nodes, unsigned seed) : run_{run}, job_{job}, nodes_{nodes}, random_{seed} {}

  /// The first of a storm, before the first step: later starts reuse what was measured.
  Fault while_measuring() {
    return {.name = "killed while it measures", .strike = [this] {
              job_.waits_until([this] { return count_in_log("measuring and planning") > 0; });
              job_.waits(between(0, 3));
              kill_any();
            }};
  }
  /// One of each kind of the short storm, in random order.
  std::vector<Fault> each_brief_kind() {
    auto all = kinds();
    std::erase_if(all, [](const Fault& fault) { return !fault.brief; });
    std::ranges::shuffle(all, random_);
    return all;
  }
  /// `count` faults of all kinds, each as often as it should be; of one kind alone where `only` names it.
  std::vector<Fault> deal(std::size_t count, const std::string& only) {
    std::vector<Fault> all, dealt;
    for (const auto& fault : kinds())
      if (only.empty() || fault.name == only) all.insert(all.end(), static_cast<std::size_t>(fault.often), fault);
    if (all.empty()) throw std::invalid_argument{only + ": no kind of fault"};
    std::ranges::shuffle(all, random_);
    while (dealt.size() < count) dealt.push_back(all[dealt.size() % all.size()]);
    return dealt;
  }

  double between(double low, double high) { return std::uniform_real_distribution<double>{low, high}(random_); }

 private:
  std::vector<Fault> kinds() {
    std::vector<Fault> all = signals();
    for (auto more : {processes(), machines(), disks(), moments()}) std::ranges::move(more, std::back_inserter(all));
    if (job_.components() > 1)
      all.push_back({.name = "component cancelled", .often = 2, .strike = [this] {
                       on_head({"scancel", std::to_string(std::stoi(job_.id()) + 1)}, true);
                     }});
    return all;
  }

  /// What Slurm and its users do.
  std::vector<Fault> signals() {
    return {
        {.name = "asked to start again", .often = 3, .strike = [this] { tell_script("USR1"); }},
        {.name = "warned", .often = 3, .strike = [this] { tell_script("USR2"); }},
        {.name = "scontrol requeue", .often = 2, .strike = [this] { requeue(); }},
        {.name = "preemption",
         .often = 2,
         .strike =
             [this] {
               on_head({"sbatch", "-Q", "-p", "urgent", "-w", any_node(), "--exclusive", "-o", "/dev/null", "--wrap", "sleep 1"});
             }},
    };
  }

  std::vector<Fault> processes() {
    return {
        {.name = "rank killed", .often = 5, .brief = true, .strike = [this] { kill_one("flotilla"); }},
        {.name = "slurmstepd killed", .often = 3, .strike = [this] { kill_one("slurmstepd"); }},
        {.name = "srun killed", .often = 3, .brief = true, .strike = [this] { kill_one("srun"); }},
        {.name = "rank stopped for 5 to 20 s", .often = 3, .ends_launch = false, .strike = [this] { stop_one(); }},
        {.name = "two faults within a second",
         .often = 3,
         .strike =
             [this] {
               strike_at_once();
               job_.waits(between(0, 1));
               strike_at_once();
             }},
        {.name = "controller restarted, rank killed",
         .often = 1,
         .strike =
             [this] {
               output_of(cluster({"controller"}));
               kill_one("flotilla");
             }},
        {.name = "slurmctld killed, away for 10 s",
         .often = 2,
         .brief = true,
         .ends_launch = false,
         .strike = [this] { controller_away(10); }},
        {.name = "slurmctld killed, a rank while it is away",
         .often = 1,
         .strike =
             [this] {
               output_of(cluster({"controller", "out"}));
               kill_one("flotilla");
               std::this_thread::sleep_for(std::chrono::seconds{10});
               output_of(cluster({"controller", "in"}));
             }},
    };
  }

  /// A lost batch host is what a requeue is, too; only a cable is pulled there, once.
  std::vector<Fault> machines() {
    return {
        {.name = "node crash",
         .strike =
             [this] {
               output_of(cluster({"crash", other_node()}));
             },
         .mend =
             [this] {
               output_of(cluster({"boot", node_}), true);
             }},
        {.name = "node off and on again",
         .often = 2,
         .strike =
             [this] {
               output_of(cluster({"crash", other_node()}));
               output_of(cluster({"boot", node_}), true);
             }},
        {.name = "cable pulled until the run goes on",
         .strike =
             [this] {
               output_of(cluster({"cable", other_node(), "out"}));
             },
         .mend =
             [this] {
               output_of(cluster({"cable", node_, "in"}));
             }},
        {.name = "cable out for 3 s", .often = 3, .ends_launch = false, .strike = [this] { cable_out(any_node(), 3); }},
        {.name = "cable out for 27 s", .often = 2, .strike = [this] { cable_out(other_node(), 27); }},
        {.name = "cable out for 90 s", .often = 1, .strike = [this] { cable_out(any_node(), 90); }},
    };
  }

  std::vector<Fault> disks() {
    const auto away = [this](const char* how, const char* back, double seconds) {
      return [=, this] {
        output_of(cluster({"disk", how}));
        job_.waits(seconds);
        output_of(cluster({"disk", back}));
        newest_ = newest();
      };
    };
    const auto saved_since = [this] { return newest() > newest_; };
    return {
        {.name = "disk full for 24 s",
         .often = 2,
         .brief = true,
         .ends_launch = false,
         .strike = away("full", "free", 24),
         .over = saved_since},
        {.name = "disk read-only for 15 s",
         .often = 2,
         .ends_launch = false,
         .strike = away("readonly", "writable", 15),
         .over = saved_since},
        {.name = "disk full, a rank killed meanwhile",
         .often = 1,
         .strike =
             [this] {
               output_of(cluster({"disk", "full"}));
               kill_one("flotilla");
               job_.waits(24);
               output_of(cluster({"disk", "free"}));
             }},
    };
  }

  /// Faults in a certain moment.
  std::vector<Fault> moments() {
    return {
        {.name = "killed while it starts",
         .often = 4,
         .strike =
             [this] {
               const auto before = launches();
               tell_script("USR1");
               job_.waits_until([&] { return launches() > before; });
               job_.waits(between(0, 2));
               kill_any();
             }},
        {.name = "killed while it saves",
         .often = 3,
         .strike =
             [this] {
               until([this] { return saves(); }, Milliseconds{1});
               kill_one("flotilla");
             }},
        {.name = "slurmctld killed while the job is requeued",
         .often = 1,
         .strike =
             [this] {
               requeue();
               controller_away(5);
             }},
        {.name = "cable out while the job is requeued",
         .often = 1,
         .strike =
             [this] {
               requeue();
               cable_out(any_node(), 3);
             }},
        {.name = "killed while the job is requeued",
         .often = 1,
         .strike =
             [this] {
               requeue();
               job_.waits(between(0, 1));
               for (const auto* name : {"slurmstepd", "flotilla"}) try_to_kill(name);
             }},
    };
  }

  void tell_script(const std::string& signal) { on_head({"scancel", "--batch", "--signal=" + signal, job_.id()}, true); }
  void requeue() { on_head({"scontrol", "requeue", job_.id()}, true); }
  const std::string& any_node() { return node_ = nodes_.at(random_() % nodes_.size()); }
  const std::string& other_node() { return node_ = nodes_.at(1 + random_() % (nodes_.size() - 1)); }

  bool try_to_kill(const std::string& name) {
    auto found = processes_on(nodes_, name);
    if (found.empty()) return false;
    if (name != "srun") found = {found.at(random_() % found.size())};  // srun has a child of its name, which nobody would miss
    return std::ranges::all_of(found, [](pid_t process) { return ::kill(process, SIGKILL) == 0; });
  }
  /// Between two launches there is none.
  void kill_one(const std::string& name) {
    EXPECT_TRUE(until([&] { return try_to_kill(name); }, Milliseconds{20})) << name << " is nowhere";
  }
  void kill_any() { kill_one(std::array{"flotilla", "slurmstepd", "srun"}.at(random_() % 3)); }
  void strike_at_once() {
    switch (random_() % 5) {
      case 0: return tell_script("USR1");
      case 1: return tell_script("USR2");
      default: return kill_any();
    }
  }
  void stop_one() {
    const auto found = processes_on(nodes_, "flotilla");
    if (found.empty()) return;
    const auto process = found.at(random_() % found.size());
    ::kill(process, SIGSTOP);
    job_.waits(between(5, 20));
    ::kill(process, SIGCONT);
  }
  void cable_out(const std::string& node, double seconds) {
    output_of(cluster({"cable", node, "out"}));
    job_.waits(seconds);
    output_of(cluster({"cable", node, "in"}));
  }
  /// Meanwhile Slurm's commands wait for it, those of this side, too.
  void controller_away(double seconds) {
    output_of(cluster({"controller", "out"}));
    std::this_thread::sleep_for(std::chrono::duration<double>{seconds});
    output_of(cluster({"controller", "in"}));
  }

  std::int64_t count_in_log(const std::string& words) const {
    const auto log = job_.log();
    std::int64_t count = 0;
    for (auto at = log.find(words); at != std::string::npos; at = log.find(words, at + 1)) ++count;
    return count;
  }
  std::int64_t launches() const { return count_in_log(": launching on"); }
  std::int64_t newest() const {
    const auto steps = committed(run_.directory());
    return steps.empty() ? 0 : steps.back();
  }
  /// A step without its manifest.
  bool saves() const {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator{run_.directory(), none})
      if (entry.path().filename().string().rfind("step-", 0) == 0 && !fs::exists(entry.path() / "manifest.json")) return true;
    return false;
  }

  const SlurmRun& run_;
  BatchJob& job_;
  const Words nodes_;
  std::string node_;         ///< struck last
  std::int64_t newest_ = 0;  ///< checkpoint, when the disk had room again
  std::mt19937 random_;
};

}  // namespace flotilla::tests
