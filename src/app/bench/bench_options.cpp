#include "app/bench/bench_options.hpp"

#include "app/bench/bench.hpp"
#include "app/common/job_table.hpp"

namespace flotilla::app {

options::Table bench_table(BenchOptions& o) {
  options::Table t;
  t.section("bench", "Testing nodes");
  t.add("bench.stages", &o.stages,
        "0: every node by itself; under a launcher 1: links between nodes, 2: collectives; 3: the card; 4: a soak",
        {.minimum = 0, .maximum = 4, .alias = "stages"});
  t.add("bench.card-model", &o.card_models, "of stage 3: a built-in model that one node of every type trains",
        {.value = "NAME", .unset = "the job's", .alias = "card-model"});
  t.add("bench.card-job", &o.card_job, "of stage 3: job file with length, batch, precision and what else training has",
        {.value = "JOB", .unset = "none", .alias = "card-job"});
  t.add("bench.soak", &o.soak, "stage 4: every hardware thread repeats the known-answer step for this long, or until a signal",
        {.minimum = 0, .unset = "none; 1h with stage 4", .alias = "soak"});
  t.add("bench.transports", &o.transports, "of stage 1, beside UCX's own choice and MPI: as in UCX_TLS, such as tcp or rc",
        {.value = "NAME", .unset = "none", .alias = "transports"});
  t.add("bench.folder", &o.folder, "where nodes leave their reports; on a file system that they share",
        {.value = "DIRECTORY", .alias = "folder"});
  t.add("bench.disk", &o.disk, "test the file system of this directory, where checkpoints go",
        {.value = "DIRECTORY", .unset = "that of bench.folder", .alias = "disk"});
  t.add("bench.disk-size", &o.disk_size, "bytes that each node writes and reads there", {.minimum = 4 << 20});
  t.add("bench.budget", &o.budget, "wall time of the whole command, within 20 %; a soak's length comes on top",
        {.minimum = 1, .maximum = 3600, .alias = "budget"});
  t.add("bench.silence", &o.silence, "a node that gives no sign of life for this long counts as lost", {.minimum = 1, .maximum = 3600});
  t.add("bench.deadline", &o.message_deadline, "of stages 1 and 2: a message without an end for this long is a fault",
        {.maximum = 3600, .above = 0});
  t.section("judging", "Judging them");
  t.add("judging.history", &o.history, "directory of earlier reports: baselines are learned from it, and this report is added",
        {.value = "DIRECTORY", .unset = "none", .alias = "history"});
  t.add("judging.baseline", &o.baseline, "a report to hold the nodes against instead of the history",
        {.value = "FILE", .unset = "none", .alias = "baseline"});
  t.add("judging.compare", &o.compare, "compare two reports: flotilla bench --compare OLD NEW", {.alias = "compare"});
  t.add("judging.quiet", &o.quiet, "print nothing if all nodes are well", {.alias = "quiet"});
  t.section("export", "For other tools and people");
  t.add("export.page", &o.page, "write a page with pictures: verdicts, nodes, pairs, links, collectives, earlier reports",
        {.value = "FILE", .unset = "none", .alias = "html"});
  t.add("export.prometheus", &o.prometheus, "write figures and verdicts in Prometheus text format, for node_exporter's textfile collector",
        {.value = "FILE", .unset = "none", .alias = "prometheus"});
  t.add("export.reframe", &o.reframe, "write medians by partition as a ReFrame reference block",
        {.value = "FILE", .unset = "none", .alias = "reframe"});
  t.add("export.topology", &o.topology, "with stage 1: write Slurm's topology.conf, nodes of full rate to each other on one switch",
        {.value = "FILE", .unset = "none", .alias = "topology"});
  t.add("export.profile", &o.profile, "measure the cluster for a job, too, and write the profile that plan, submit and train read",
        {.value = "FILE", .unset = "none", .alias = "profile"});
  t.add("export.profile-job", &o.profile_job, "job file with the model, length and precision that the profile is for",
        {.value = "JOB", .unset = "none", .alias = "profile-job"});
  t.add("export.profile-model", &o.profile_model, "built-in model that the profile is for",
        {.value = "NAME", .unset = "the job's", .alias = "profile-model"});
  add_output(t, o.output);
  return t;
}

BoundTable bench_options() {
  auto options = std::make_shared<BenchOptions>();
  auto table = bench_table(*options);
  return {options, std::move(table)};
}

}  // namespace flotilla::app
