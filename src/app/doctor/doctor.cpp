#include "app/doctor/doctor.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "flotilla/base/error.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/mpi/session.hpp"

namespace flotilla::app {
namespace {

namespace fs = std::filesystem;

constexpr Seconds answer_deadline{60};

const char* variable(const char* name) { return std::getenv(name); }

/// A file of rank 0 that every host must see while it is there.
class Token {
 public:
  Token(const mpi::Communicator& world, const std::string& directory) {
    auto folder = fs::absolute(directory);
    std::error_code ignored;
    while (!fs::is_directory(folder, ignored) && folder.has_relative_path()) folder = folder.parent_path();
    const std::string mine = (folder / text(".flotilla-doctor-", files::unguessable())).string();
    if (world.rank() == 0) files::write_text(mine, "may be deleted\n", files::Flush::no);
    path_ = mpi::broadcast_string(world, mine, 0, answer_deadline);
    mpi::barrier(world, answer_deadline);
  }
  bool seen() const {
    std::error_code ignored;
    // Listing the folder makes NFS ask the server.
    for (const auto& entry : fs::directory_iterator{path_.parent_path(), ignored})
      if (entry.path() == path_) return true;
    return false;
  }
  void remove(const mpi::Communicator& world) {
    std::error_code ignored;
    mpi::barrier(world, answer_deadline);
    if (world.rank() == 0) fs::remove(path_, ignored);
  }

 private:
  fs::path path_;
};

/// One rank a node looks at it.
bool is_first_of_its_host(const mpi::Communicator& world, const std::string& host) {
  const auto hosts = mpi::all_gather_strings(world, host, answer_deadline);
  return std::ranges::find(hosts, host) - hosts.begin() == world.rank();
}

std::vector<RankFacts> gather(const mpi::Communicator& world, const Job& job) {
  Token token{world, job.run.directory};
  auto mine = rank_facts(job);
  if (is_first_of_its_host(world, mine.host)) mine.node = node_facts(job);
  mine.sees_token = token.seen();
  std::vector<RankFacts> all;
  for (const auto& json : mpi::all_gather_strings(world, to_json(mine), answer_deadline)) all.push_back(rank_facts_from(json));
  token.remove(world);
  return all;
}

void add(std::vector<Finding>& to, std::vector<Finding> more) { to.insert(to.end(), more.begin(), more.end()); }

int answer(const Job& job, const std::vector<Finding>& findings) {
  write_output(job.output, job.output.json ? doctor_json(findings) : doctor_text(findings, output_width()));
  for (const auto& finding : findings)
    if (finding.verdict == Verdict::problem) return static_cast<int>(ExitCode::unavailable);
  return static_cast<int>(ExitCode::done);
}

int under_launcher(const Job& job, int launched) {
  std::vector<Finding> findings;
  try {
    const mpi::Session session;
    const auto& world = session.world();
    const auto ranks = gather(world, job);
    if (world.rank() != 0) return 0;
    findings.push_back(judge_world(world.size(), launched, "", ranks));
    findings.push_back(judge_components(slurm::read_allocation(options::environment()), ranks, variable));
    add(findings, judge_ranks(ranks, job.run.directory));
    if (const auto transports = judge_transports(ranks, job.comm.transport)) findings.push_back(*transports);
    add(findings, judge_nodes(ranks, job.run.directory));
  } catch (const Error& error) {
    if (!options::is_first_process()) return static_cast<int>(ExitCode::unavailable);
    findings.push_back(judge_world(1, launched, error.what(), {}));
  }
  add(findings, check_machine(job, variable));
  return answer(job, findings);
}

int alone(const Job& job) {
  std::vector<RankFacts> here{rank_facts(job)};
  here.front().node = node_facts(job);
  std::vector<Finding> findings{{"world", Verdict::skipped,
                                 "not started by a launcher: run it as the job's command to check the nodes of the job", "",
                                 "srun --mpi=pmix flotilla doctor JOB, or mpirun -n RANKS flotilla doctor JOB"}};
  findings.push_back(judge_components(slurm::read_allocation(options::environment()), here, variable));
  findings.push_back(judge_gpus(here));
  if (const auto transports = judge_transports(here, job.comm.transport)) findings.push_back(*transports);
  findings.push_back(judge_directory(here, job.run.directory));
  add(findings, judge_nodes(here, job.run.directory));
  add(findings, check_machine(job, variable));
  return answer(job, findings);
}

}  // namespace

int doctor(std::span<const std::string> arguments) {
  const auto job = read_job(arguments, Need::model);
  if (const auto singletons = judge_singletons(variable)) {
    if (!options::is_first_process()) return static_cast<int>(ExitCode::unavailable);
    std::vector<Finding> findings{*singletons};
    add(findings, check_machine(job, variable));
    return answer(job, findings);
  }
  const int launched = mpi::launched_processes(variable);
  const bool has_launcher =
      variable("PMIX_RANK") != nullptr || variable("PMI_RANK") != nullptr || variable("OMPI_COMM_WORLD_SIZE") != nullptr;
  return has_launcher ? under_launcher(job, launched) : alone(job);
}

}  // namespace flotilla::app
