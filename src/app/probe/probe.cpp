#include "app/probe/probe.hpp"

#include "app/common/batch_job.hpp"
#include "app/common/job.hpp"
#include "app/common/live_line.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/print.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/comm/fail_world.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/mpi/session.hpp"
#include "flotilla/probe/probe.hpp"
#include "flotilla/probe/report.hpp"
#include "flotilla/session/device_choice.hpp"

namespace flotilla::app {
namespace {

constexpr Seconds probe_start_deadline{120};  // before the job is read: ranks of a large job do not start at once

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
      world, "reading the job", [&] { return read_job(arguments, Need::model); }, probe_start_deadline);
  comm::require_same(world, "the job", shared_configuration(job), probe_start_deadline);
  const bool speaks = world.rank() == Rank{0};
  auto request = request_of(job);
  request.zone = comm::agree_on(
      world, "reading the batch system's variables", [&] { return batch_job(job).zone; }, probe_start_deadline);
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
  mpi::Session session;
  const comm::World world{session.world(), probe_start_deadline};
  try {
    return measure(world, arguments);
  } catch (const comm::AgreedError& error) {
    if (world.rank() == Rank{0}) log::error(error.what());
    return static_cast<int>(exit_code(error.kind()));
  } catch (...) {
    comm::fail_world(&world, nullptr, comm::last_words());
  }
}

}  // namespace flotilla::app
