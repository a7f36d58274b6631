#include "app/probe/probe.hpp"

#include "app/common/batch_job.hpp"
#include "app/common/job.hpp"
#include "app/common/live_line.hpp"
#include "app/common/on_all_ranks.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/print.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/probe/probe.hpp"
#include "flotilla/probe/report.hpp"
#include "flotilla/session/device_choice.hpp"

namespace flotilla::app {
namespace {

flotilla::probe::ProbeRequest request_of(const Job& job) {
  flotilla::probe::ProbeRequest request;
  request.model = job.architecture;
  request.length = job.training.length;
  request.precisions = {job.training.precision};
  if (job.plan.tensor > 0) request.tensor_parallel = {job.plan.tensor};
  if (job.plan.microbatch > 0) request.sequences = {job.plan.microbatch};
  request.threads = job.run.threads;
  request.memory_limit = job.device.memory;
  request.budget = job.probe.budget;
  request.deadline = job.comm.deadline;
  request.nccl = job.comm.transport != Job::Comm::Transport::mpi;
  return request;
}

/// The closing line belongs to the table: in one stream a launcher keeps their order, however busy the machine is.
void show(const Job& job, const cluster::Profile& profile, Seconds took) {
  if (job.output.json) return write_output({}, files::profile_to_json(profile));
  const auto file = job.output.file.empty() ? "" : "; profile written to " + job.output.file;
  const auto closing = message_line(text("measured in ", took, file));
  FLOTILLA_REQUIRE(print(flotilla::probe::table(profile, job.architecture) + "\n" + closing + "\n"), ErrorKind::unavailable,
                   "standard output cannot be written; is the disk full?");
}

int measure(const comm::World& world, std::span<const std::string> arguments) {
  const Job job = comm::agree_on(
      world, "reading the job", [&] { return read_job(arguments, Need::model); }, ranks_start_deadline);
  comm::require_same(world, "the job", shared_configuration(job), ranks_start_deadline);
  const bool speaks = world.rank() == Rank{0};
  auto request = request_of(job);
  request.zone = comm::agree_on(
      world, "reading the batch system's variables", [&] { return batch_job(job).zone; }, ranks_start_deadline);
  request.device = session::choose_device(world, job.device.kind, job.device.tf32, job.comm.deadline);
  const Seconds start = now();
  cluster::Profile profile;
  {
    LiveLine line;
    if (speaks) request.progress = [&](const std::string& what) { line.show("measuring " + what); };
    profile = flotilla::probe::measure(world, request);
  }
  comm::agree_on(
      world, "writing the profile",
      [&] {
        if (!speaks) return;
        if (!job.output.file.empty()) files::write_profile(job.output.file, profile);
        show(job, profile, now() - start);
      },
      job.comm.deadline);
  return static_cast<int>(ExitCode::done);
}

}  // namespace

int probe(std::span<const std::string> arguments) {
  return on_all_ranks([&](const comm::World& world) { return measure(world, arguments); });
}

}  // namespace flotilla::app
