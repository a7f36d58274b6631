#include "app/submit/resize.hpp"

#include <algorithm>

#include "app/common/table.hpp"
#include "app/submit/submit.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/slurm/run_program.hpp"
#include "slurm_answers.hpp"

namespace flotilla::app {
namespace {

/// A pending component and how many nodes it can ever be given.
struct NodeShortage {
  slurm::JobRecord job;
  int possible = 0;
};

bool has_gres(const slurm::SlurmNode& node, const std::vector<slurm::Gres>& asked) {
  return std::ranges::all_of(asked, [&](const slurm::Gres& want) {
    std::int64_t has = 0;
    for (const auto& gres : node.gres)
      if (gres.name == want.name && (want.type.empty() || gres.type == want.type)) has += gres.count;
    return has >= want.count;
  });
}

bool has_feature(const slurm::SlurmNode& node, const std::string& asked) {
  const bool simple = asked.find_first_of("&|*[]()!") == std::string::npos;
  return asked.empty() || !simple || std::ranges::find(node.features, asked) != node.features.end();
}

int possible_nodes(const slurm::SlurmCluster& slurm_cluster, const slurm::JobRecord& job) {
  const auto partition = std::ranges::find(slurm_cluster.partitions, job.partition, &slurm::Partition::name);
  if (partition == slurm_cluster.partitions.end() || !partition->open) return 0;
  const auto fits = [&](std::size_t n) {
    const auto& node = slurm_cluster.nodes[n];
    return node.usable && has_gres(node, job.gres) && has_feature(node, job.features);
  };
  const auto nodes = static_cast<int>(std::ranges::count_if(partition->nodes, fits));
  return std::min(nodes, partition->most_nodes.value_or(nodes));
}

std::vector<NodeShortage> shortages(const SubmitOptions& o, const std::vector<slurm::JobRecord>& jobs) {
  const auto slurm_cluster = slurm_cluster_of(o.submit);
  std::vector<NodeShortage> found;
  for (const auto& job : jobs)
    if (const int possible = possible_nodes(slurm_cluster, job); possible < job.fewest_nodes) found.push_back({job, possible});
  return found;
}

void require_number(const options::Setting& setting, const std::string& id) {
  const bool digits = !id.empty() && id.size() < 12 && std::ranges::all_of(id, [](unsigned char c) { return c >= '0' && c <= '9'; });
  FLOTILLA_REQUIRE(digits, ErrorKind::usage, "--", setting.alias, " ", id.substr(0, 60),
                   ": expected the number of a job, as sbatch printed it");
}

/// Ids come from scontrol, but they end up in commands: they are numbers or nothing.
std::vector<std::string> update_of(const NodeShortage& s) {
  return {"scontrol", "update", "jobid=" + s.job.id, text("NumNodes=", s.possible == 1 ? "1-1" : text("1-", s.possible))};
}

std::string in_words(const std::vector<std::string>& command) {
  std::string words;
  for (const auto& word : command) words += (words.empty() ? "" : " ") + word;
  return words;
}

int shrink(const SubmitOptions& o, const std::vector<NodeShortage>& all) {
  std::string said;
  for (const auto& s : all) {
    const auto command = update_of(s);
    said += text("component ", s.job.offset, " (", s.job.partition, ") asks for ", s.job.fewest_nodes,
                 s.job.fewest_nodes == 1 ? " node, " : " nodes, ", s.possible, s.possible == 1 ? " is" : " are",
                 " left: ", in_words(command), "\n");
    if (!o.submit.dry_run) slurm::answer_of(command);
  }
  write_output(o.planning.output, said);
  return static_cast<int>(ExitCode::done);
}

/// scontrol (22.05 at least) resizes no job that is the leader of a heterogeneous one, and nothing resizes a job to no nodes.
bool must_go(const NodeShortage& s) { return s.possible == 0 || (!s.job.leader.empty() && s.job.offset == 0); }

std::string why(const NodeShortage& s) {
  const std::string component = text("component ", s.job.offset, " (", s.job.partition, ")");
  if (s.possible == 0) return text(component, ": no node is left that it could be given, and Slurm lets no component go alone");
  return text(component, " asks for ", s.job.fewest_nodes, s.job.fewest_nodes == 1 ? " node, " : " nodes, ", s.possible,
              s.possible == 1 ? " is" : " are", " left, and Slurm does not resize the first component of a heterogeneous job");
}

/// Sends the job anew over what there is, then takes the old one back.
int replace(const SubmitOptions& o, const NodeShortage& shortage) {
  FLOTILLA_REQUIRE(!o.job_file.empty(), ErrorKind::unavailable, why(shortage),
                   "; give the job file, and the job is planned and sent anew (flotilla submit --resize ", o.submit.resize, " JOB)");
  log::warning(why(shortage), "; a new job is planned and submitted, the run resumes from ", o.run_directory);
  auto again = o;
  again.submit.resize.clear();
  again.submit.wait = true;
  const int code = submit(again);
  if (code == 0 && !o.submit.dry_run) slurm::answer_of({"scancel", o.submit.resize});
  return code;
}

}  // namespace

int resize(const SubmitOptions& o) {
  const auto& id = o.submit.resize;
  require_number(o.planning.setting("submit.resize"), id);
  auto jobs = slurm::read_jobs(ask_slurm_cluster(o.submit, "jobs.txt", {"scontrol", "--oneliner", "show", "job", id}));
  FLOTILLA_REQUIRE(!jobs.empty(), ErrorKind::bad_input, "--resize ", id, ": Slurm knows no such job");
  std::erase_if(jobs, [](const auto& job) { return job.state != "PENDING"; });
  FLOTILLA_REQUIRE(!jobs.empty(), ErrorKind::bad_input, "--resize ", id,
                   ": the job does not wait in the queue; a running job is requeued first (scontrol requeue ", id, ")");
  for (const auto& job : jobs) require_number(o.planning.setting("submit.resize"), job.id);
  const auto all = shortages(o, jobs);
  if (const auto gone = std::ranges::find_if(all, must_go); gone != all.end()) return replace(o, *gone);
  if (all.empty()) write_output(o.planning.output, text("every component of job ", id, " can be filled: nothing to do\n"));
  return all.empty() ? 0 : shrink(o, all);
}

}  // namespace flotilla::app
