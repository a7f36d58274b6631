#pragma once
#include <fstream>
#include <map>
#include <string>
#include <vector>

/// Answers of sites that nobody here has: composed line by line in the form that a real Slurm 22.05 answered in (tests/app/submit/testbed).
namespace flotilla::app::testing {

struct MadeNodes {
  std::string prefix = "n", suffix = "";
  int first = 1, count = 1, digits = 3;
  std::string state = "idle", flags = "IDLE", gres = "(null)", used = "gpu:0", features = "(null)";
  int cpus = 64, idle_cpus = 64, memory_mb = 512000;
};

class MadeSite {
 public:
  void partition(const std::string& name, const std::vector<MadeNodes>& groups, const std::string& more = "") {
    partitions_ += "PartitionName=" + name + " AllowGroups=ALL Default=NO GraceTime=0 Hidden=NO " +
                   (more.empty() ? usual : more + " " + usual) +
                   " RootOnly=NO ReqResv=NO OverTimeLimit=NONE State=UP TotalCPUs=1 TotalNodes=1 JobDefaults=(null)\n";
    for (const auto& g : groups)
      for (int n = g.first; n < g.first + g.count; ++n) node(name, g, n);
  }
  void configuration(const std::string& lines) { configuration_ += lines; }
  /// What one of the files that a site need not have holds: "reservations.txt", "accounts.txt", "qos.txt".
  void more(const std::string& file, const std::string& lines) { more_[file] += lines; }
  void save(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    std::ofstream{folder / "sinfo.txt"} << sinfo_;
    std::ofstream{folder / "partitions.txt"} << partitions_;
    std::ofstream{folder / "nodes.txt"} << nodes_;
    for (const auto& [file, lines] : more_) std::ofstream{folder / file} << lines;
    std::ofstream{folder / "config.txt"} << "SLURM_VERSION           = 22.05.8\nKillWait                = 30 sec\n" << configuration_;
  }

 private:
  // First come the caller's own words: of a key that stands twice the first counts.
  static constexpr const char* usual =
      "MaxNodes=UNLIMITED MaxTime=1-00:00:00 MinNodes=0 PriorityTier=1 OverSubscribe=NO PreemptMode=OFF "
      "DefMemPerNode=UNLIMITED";

  void node(const std::string& partition, const MadeNodes& g, int number) {
    std::string digits = std::to_string(number);
    digits.insert(0, digits.size() < static_cast<std::size_t>(g.digits) ? static_cast<std::size_t>(g.digits) - digits.size() : 0, '0');
    const std::string name = g.prefix + digits + g.suffix;
    const auto text = [](int n) { return std::to_string(n); };
    sinfo_ += name + "|" + partition + "|up|" + g.state + "|" + text(g.cpus) + "|" + text(g.memory_mb) + "|" + g.gres + "|" + g.features +
              "|" + text(g.cpus - g.idle_cpus) + "/" + text(g.idle_cpus) + "/0/" + text(g.cpus) + "\n";
    nodes_ += "NodeName=" + name + " Arch=x86_64 CPUTot=" + text(g.cpus) + " Gres=" + g.gres + " GresUsed=" + g.used +
              " OS=Linux 6.1.0 #1 SMP  State=" + g.flags + " Partitions=" + partition + " Reason=none State=IDLE\n";
  }

  std::string sinfo_, partitions_, nodes_, configuration_;
  std::map<std::string, std::string> more_;
};

}  // namespace flotilla::app::testing
