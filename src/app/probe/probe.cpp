#include "app/probe/probe.hpp"

#include "app/common/fabric_text.hpp"
#include "app/common/job.hpp"
#include "app/common/live_line.hpp"
#include "app/common/on_all_ranks.hpp"
#include "app/common/profile_measurement.hpp"
#include "app/probe/network_probe.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/print.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/files/fabric_links_file.hpp"
#include "flotilla/probe/report.hpp"

namespace flotilla::app {
namespace {

constexpr double for_network = 0.15;  // of the budget

/// What was measured: the profile, and the network beside what MPI makes of it.
struct Measured {
  cluster::Profile profile;
  std::vector<bench::FabricLink> fabric_links;
};

/// The closing line belongs to the table: in one stream a launcher keeps their order, however busy the machine is.
void show(const Job& job, const Measured& measured, Seconds took) {
  if (job.output.json) return write_output({}, files::library_to_json({measured.profile, {}}, measured.fabric_links));
  const auto file = job.output.file.empty() ? "" : "; profile written to " + job.output.file;
  const auto closing = message_line(text("measured in ", took, file));
  const auto fabric = fabric_text(measured.fabric_links, output_style());
  FLOTILLA_REQUIRE(
      print(text(flotilla::probe::table(measured.profile, job.architecture), fabric, fabric.empty() ? "" : "\n", closing, "\n")),
      ErrorKind::unavailable, "standard output cannot be written; is the disk full?");
}

/// Where MPI makes less of the network than elsewhere.
void warn_of_low_shares(const std::vector<bench::FabricLink>& links) {
  const auto low = bench::low_shares(links);
  if (!low.everywhere.empty()) log::warning(low.everywhere);
  for (const auto& [host, what] : low.hosts) log::warning(host, ": ", what);
}

int measure(const comm::World& world, std::span<const std::string> arguments) {
  Job job = comm::agree_on(
      world, "reading the job", [&] { return read_job(arguments, Need::model); }, ranks_start_deadline);
  comm::require_same(world, "the job", shared_configuration(job), ranks_start_deadline);
  const bool speaks = world.rank() == Rank{0};
  const Seconds start = now(), end = start + job.probe.budget;
  job.probe.budget = job.probe.budget * (1 - for_network);
  Measured measured;
  {
    LiveLine line;
    const auto tell = [&](const std::string& what) {
      if (speaks) line.show("measuring " + what);
    };
    measured.profile = measure_profile(world, job, tell);
    tell("network");
    measured.fabric_links = measure_network(world, measured.profile.devices, end - now(), job.comm.deadline);
  }
  comm::agree_on(
      world, "writing the profile",
      [&] {
        if (!speaks) return;
        if (!job.output.file.empty()) files::write_profile(job.output.file, measured.profile, measured.fabric_links);
        show(job, measured, now() - start);
        warn_of_low_shares(measured.fabric_links);
      },
      job.comm.deadline);
  return static_cast<int>(ExitCode::done);
}

}  // namespace

int probe(std::span<const std::string> arguments) {
  return on_all_ranks([&](const comm::World& world) { return measure(world, arguments); });
}

}  // namespace flotilla::app
