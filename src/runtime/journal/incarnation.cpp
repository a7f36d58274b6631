#include "incarnation.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "flotilla/base/error.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/text_file.hpp"
#include "limits.hpp"

namespace flotilla::journal {
namespace {

/// "17.json" → 17; anything else, such as a temporary file: 0.
int number_in(const std::string& name) {
  int number = 0;
  const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const std::string_view suffix{rest, static_cast<std::size_t>(name.data() + name.size() - rest)};
  return error == std::errc{} && suffix == ".json" && number > 0 && number <= last_incarnation ? number : 0;
}

double a_time(const files::Json& json, const char* key) { return json.at(key).as_double(0, latest_time); }

void fill(Claim& claim, const files::Json& json) {
  claim.process.host = json.get_string("host");
  claim.process.pid = json.get_int("pid", 0);
  claim.process.start = static_cast<std::uint64_t>(json.get_int64("process_start"));
  claim.process.boot_id = json.get_string("boot_id");
  claim.process.pid_namespace = static_cast<std::uint64_t>(json.get_int64("pid_namespace"));
  claim.job = json.get_string("job");
  claim.started = a_time(json, "started");
  if (json.has("released")) claim.released = a_time(json, "released");
}

}  // namespace

std::filesystem::path incarnations_folder(const std::filesystem::path& run) { return run / "incarnations"; }

std::filesystem::path claim_file(const std::filesystem::path& run, int number) { return incarnations_folder(run) / text(number, ".json"); }

std::vector<int> incarnation_numbers(const std::filesystem::path& run, const Patience& patience) {
  std::vector<int> numbers;
  // Opening the folder makes NFS ask the server; a look at one name might be answered from an old cache.
  const auto names = files::names_in(incarnations_folder(run), patience);
  for (const auto& name : names.value_or(std::vector<std::string>{}))
    if (const int number = number_in(name); number > 0) numbers.push_back(number);
  std::ranges::sort(numbers);
  return numbers;
}

int newest_incarnation(const std::filesystem::path& run, const Patience& patience) {
  const auto numbers = incarnation_numbers(run, patience);
  return numbers.empty() ? 0 : numbers.back();
}

std::optional<Claim> read_claim(const std::filesystem::path& run, int number) {
  const auto path = claim_file(run, number);
  Claim claim;
  claim.number = number;
  try {
    const auto content = files::read_text_if_there(path, small_file);
    if (!content) return std::nullopt;
    fill(claim, files::Json::parse(*content, path.string()));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input) throw;
    claim = Claim{};
    claim.number = number;
    claim.readable = false;
  }
  // After reading: opening the file made NFS fetch its times.
  const auto facts = files::facts_of(path);
  if (!facts) return std::nullopt;
  claim.heartbeat = facts->modified;
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
