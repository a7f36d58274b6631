#include "incarnation.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "flotilla/base/error.hpp"
#include "flotilla/files/json.hpp"

namespace flotilla::journal {
namespace {

/// "17.json" → 17; anything else, such as a temporary file: 0.
int number_in(const std::string& name) {
  int number = 0;
  const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const std::string_view suffix{rest, static_cast<std::size_t>(name.data() + name.size() - rest)};
  return error == std::errc{} && suffix == ".json" && number > 0 ? number : 0;
}

void fill(Claim& claim, const files::Json& json) {
  claim.process.host = json.get_string("host");
  claim.process.pid = json.get_int("pid");
  claim.process.start = static_cast<std::uint64_t>(json.get_int64("process_start"));
  claim.process.boot_id = json.get_string("boot_id");
  claim.process.pid_namespace = static_cast<std::uint64_t>(json.get_int64("pid_namespace"));
  claim.job = json.get_string("job");
  claim.started = json.get_double("started");
  if (json.has("released")) claim.released = json.get_double("released");
}

}  // namespace

std::filesystem::path incarnations_folder(const std::filesystem::path& run) { return run / "incarnations"; }

std::filesystem::path claim_file(const std::filesystem::path& run, int number) { return incarnations_folder(run) / text(number, ".json"); }

int newest_incarnation(const std::filesystem::path& run) {
  std::error_code missing;
  int newest = 0;
  // Opening the folder makes NFS ask the server; a look at one name might be answered from an old cache.
  std::filesystem::directory_iterator entries{incarnations_folder(run), missing};
  for (; !missing && entries != std::filesystem::directory_iterator{}; entries.increment(missing)) {
    newest = std::max(newest, number_in(entries->path().filename().string()));
  }
  return newest;
}

std::optional<Claim> read_claim(const std::filesystem::path& run, int number) {
  const auto path = claim_file(run, number);
  Claim claim;
  claim.number = number;
  try {
    fill(claim, files::Json::read(path));
  } catch (const Error&) {
    claim = Claim{};
    claim.number = number;
    claim.readable = false;
  }
  // After reading: opening the file made NFS fetch its times.
  struct ::stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return std::nullopt;
  claim.heartbeat = static_cast<double>(facts.st_mtim.tv_sec) + 1e-9 * static_cast<double>(facts.st_mtim.tv_nsec);
  return claim;
}

std::string to_json(const Claim& claim) {
  files::JsonLine line;
  line.add("incarnation", claim.number).add("host", claim.process.host).add("pid", claim.process.pid);
  line.add("job", claim.job).add("started", claim.started);
  if (claim.released > 0) line.add("released", claim.released);
  line.add("process_start", static_cast<std::int64_t>(claim.process.start)).add("boot_id", claim.process.boot_id);
  line.add("pid_namespace", static_cast<std::int64_t>(claim.process.pid_namespace));
  return line.text() + "\n";
}

Standing judge(const Claim& claim, double now, Seconds stale_after) {
  if (claim.released > 0) return Standing::released;
  if (claim.readable && is_certainly_dead(claim.process)) return Standing::dead;
  return now - claim.heartbeat > stale_after.value ? Standing::stale : Standing::held;
}

std::string description(const Claim& claim, double now) {
  const Seconds age{std::max(0.0, std::round(now - claim.heartbeat))};
  if (!claim.readable) return text("incarnation ", claim.number, " (its file is damaged), last heartbeat ", age, " ago");
  return text("incarnation ", claim.number, " (host ", claim.process.host, ", pid ", claim.process.pid, claim.job.empty() ? "" : ", job ",
              claim.job, "), started ", utc_text(claim.started), ", last heartbeat ", age, " ago");
}

}  // namespace flotilla::journal
