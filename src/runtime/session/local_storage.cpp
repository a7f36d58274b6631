#include "flotilla/session/local_storage.hpp"

#include <cctype>
#include <cstdlib>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/model/tensors.hpp"
#include "flotilla/mpi/communicator.hpp"

namespace flotilla::session {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view record_format = "flotilla-local";

/// RUN/local.json: which parts on the nodes are of this run, and from which incarnation on they count.
struct LocalRecord {
  std::string run;
  int first_incarnation = 0;
};

fs::path record_file(const fs::path& run) { return run / "local.json"; }

void write_record(const fs::path& run, const LocalRecord& record) {
  files::JsonLine line;
  line.add("format", record_format).add("version", 1).add("run", record.run).add("first_incarnation", record.first_incarnation);
  files::write_text(record_file(run), line.text() + "\n");
}

/// A run directory that is made anew has another name for its parts: those of one that was there before are never taken for its own.
LocalRecord read_or_make_record(const fs::path& run) {
  const auto file = record_file(run);
  if (!files::facts_of(file)) {
    const LocalRecord fresh{files::unguessable(), 0};
    write_record(run, fresh);
    return fresh;
  }
  const auto json = files::Json::read(file);
  files::require_format(json, record_format, 1);
  json.expect_keys({"format", "version", "run", "first_incarnation"});
  LocalRecord record{json.get_string("run"), json.get_int("first_incarnation", 0)};
  const bool name = record.run.size() == 16 && record.run.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!name) json.at("run").refuse("expected 16 hexadecimal digits");
  return record;
}

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

[[noreturn]] void refuse_pattern(const std::string& pattern, const std::string& what) {
  throw Error{ErrorKind::bad_input, text("checkpoint.local = ", in_quotes(pattern), ": ", what)};
}

/// The variable at `at`, which is left behind its name.
std::string variable_at(const std::string& pattern, std::size_t& at, const NodeNames& names) {
  const bool braces = at < pattern.size() && pattern[at] == '{';
  std::size_t end = at + (braces ? 1 : 0);
  const std::size_t begin = end;
  while (end < pattern.size() && is_name(pattern[end])) ++end;
  const auto name = pattern.substr(begin, end - begin);
  if (name.empty() || (braces && (end == pattern.size() || pattern[end] != '}')))
    refuse_pattern(pattern, "expected a variable's name after $: $NAME or ${NAME}");
  at = end + (braces ? 1 : 0);
  const auto value = names.variable(name);
  if (!value || value->empty())
    refuse_pattern(pattern, text("the environment on ", names.host, " has no ", name, "; set it on every node, or name a folder"));
  return *value;
}

std::string code_at(const std::string& pattern, std::size_t& at, const NodeNames& names) {
  const char code = at < pattern.size() ? pattern[at] : '\0';
  ++at;
  if (code == '%') return "%";
  if (code == 'N') return names.host;
  if (code != 'j') refuse_pattern(pattern, "expected %j (job ID), %N (host) or %% after %");
  if (names.job.empty()) refuse_pattern(pattern, "%j is the batch job's ID, and this is no batch job");
  return names.job;
}

class LocalStart {
 public:
  LocalStart(const comm::World& world, const RunConfig& config, const Incarnation& incarnation)
      : world_{world}, config_{config}, incarnation_{incarnation}, deadline_{config.comm.deadline} {}

  checkpoint::LocalPlace take_up() {
    const auto record = shared_record();
    make_folder(record);
    drain_newest(record.first_incarnation);
    comm::agree_on(
        world_, "noting what local checkpoints count",
        [&] {
          if (!root()) return;
          incarnation_.require_lock();
          write_record(incarnation_.run(), {record.run, incarnation_.incarnation()});
        },
        deadline_);
    checkpoint::remove_all_parts(place_);
    comm::agree_on(
        world_, "removing old local checkpoints", [] {}, deadline_);
    return place_;
  }

 private:
  bool root() const { return world_.rank() == Rank{0}; }
  std::string from_root(const std::string& value) const { return mpi::broadcast_string(world_.control(), value, 0, deadline_); }

  LocalRecord shared_record() const {
    const auto mine = comm::agree_on(
        world_, "reading which local checkpoints are of this run",
        [&] { return root() ? read_or_make_record(incarnation_.run()) : LocalRecord{}; }, deadline_);
    return {from_root(mine.run), std::stoi(from_root(std::to_string(mine.first_incarnation)))};
  }

  void make_folder(const LocalRecord& record) {
    const NodeNames names{incarnation_.job(), world_.host(world_.rank()), [](const std::string& name) -> std::optional<std::string> {
                            const char* const value = std::getenv(name.c_str());
                            return value == nullptr ? std::nullopt : std::optional<std::string>{value};
                          }};
    comm::agree_on(
        world_, "making the folder of local checkpoints",
        [&] {
          place_ = {local_folder(config_.checkpoint.local, names) / ("flotilla-" + record.run), incarnation_.incarnation()};
          files::make_own_folder(place_.folder);
        },
        deadline_);
  }

  std::int64_t newest_in_run() const {
    std::int64_t step = -1;
    comm::agree_on(
        world_, "looking for checkpoints",
        [&] {
          if (!root()) return;
          if (const auto steps = checkpoint::list(incarnation_.run()); !steps.empty()) step = steps.back().step;
        },
        deadline_);
    return std::stoll(from_root(std::to_string(step)));
  }

  void drain_newest(int first_incarnation) {
    const auto newest = newest_in_run();
    for (const auto& found : checkpoint::list_local(world_, place_, first_incarnation, deadline_)) {
      if (found.step <= newest) continue;
      const auto why_not = found.complete() ? drain(found) : why_incomplete(found);
      if (why_not.empty()) return;
      if (root())
        log::warning("the checkpoint of step ", found.step, " on node-local storage is lost: ", why_not, "; an earlier one is used");
    }
  }

  std::string why_incomplete(const checkpoint::LocalCheckpoint& found) const {
    const auto hosts = checkpoint::missing_hosts(world_, place_, found, deadline_);
    return hosts.empty() ? "parts of it are not here" : text("the parts of ", hosts, " are not here");
  }

  /// Empty, or why it cannot be.
  std::string drain(const checkpoint::LocalCheckpoint& found) const {
    checkpoint::SaveOptions options;
    options.keep = config_.checkpoint.keep;
    options.deadline = deadline_;
    try {
      checkpoint::drain(world_, place_, found, model::tensors(config_.architecture), incarnation_.run(), options);
    } catch (const comm::AgreedError& error) {
      if (error.kind() != ErrorKind::bad_input) throw;
      return error.what();
    }
    if (root()) log::info("the checkpoint of step ", found.step, " was on node-local storage only; it is in the run directory now");
    return {};
  }

  const comm::World& world_;
  const RunConfig& config_;
  const Incarnation& incarnation_;
  const Seconds deadline_;
  checkpoint::LocalPlace place_;
};

}  // namespace

fs::path local_folder(const std::string& pattern, const NodeNames& names) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size();) {
    const char c = pattern[i++];
    out += c == '$' ? variable_at(pattern, i, names) : c == '%' ? code_at(pattern, i, names) : std::string(1, c);
  }
  if (!fs::path{out}.is_absolute())
    refuse_pattern(pattern, text("is ", in_quotes(out), " on ", names.host, "; expected a path that begins with /"));
  return out;
}

std::optional<checkpoint::LocalPlace> take_up_local_storage(const comm::World& world, const RunConfig& config,
                                                            const Incarnation& incarnation) {
  if (config.checkpoint.local.empty()) return std::nullopt;
  return LocalStart{world, config, incarnation}.take_up();
}

}  // namespace flotilla::session
