#include "flotilla/session/data_files.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <sstream>
#include <thread>

#include "flotilla/base/foreign_text.hpp"
#include "flotilla/files/patterns.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "flotilla/signals/signal_thread.hpp"
#include "flotilla/signals/stop_signals.hpp"

namespace flotilla::session {
namespace {

using Paths = std::vector<std::filesystem::path>;

constexpr std::chrono::milliseconds look_again{5};

/// Tokenizing takes as long as it takes: no deadline.
void wait_for_all(const comm::World& world) {
  for (auto arrived = world.control().barrier(); !arrived.test();) std::this_thread::sleep_for(look_again);
}

/// Rank 0's files on every rank.
Paths shared(const comm::World& world, const Paths& files, Seconds deadline) {
  std::string words;
  for (const auto& file : files) words += text(file.string().size(), ":", file.string());
  words = mpi::broadcast_string(world.control(), words, 0, deadline);
  Paths all;
  while (!words.empty()) {
    const auto colon = words.find(':');
    const auto size = std::stoul(words.substr(0, colon));
    all.emplace_back(words.substr(colon + 1, size));
    words.erase(0, colon + 1 + size);
  }
  return all;
}

/// Fills what is missing in the cache, on rank 0.
class Preparation {
 public:
  Preparation(const RunConfig& config, ingest::CacheEvents events) : data_{config.data}, events_{std::move(events)} {
    events_.go_on = [this, go_on = events_.go_on](const ingest::TokenizeProgress& progress) {
      return go_on(progress) && !stop_.received();
    };
  }

  const signals::StopSignals& stop() const { return stop_; }

  /// False where it was stopped.
  bool replace_text(Paths& files) const {
    const ingest::CacheOptions options{data_.tokenizer, data_.field, data_.eod, data_.chat_template, data_.cache, 0, data_.bad_lines};
    auto tokens = ingest::cached_tokens(options, files, events_);
    if (tokens) files = std::move(*tokens);
    return tokens.has_value();
  }

 private:
  const RunConfig::Data& data_;
  ingest::CacheEvents events_;
  signals::StopSignals stop_;
  signals::SignalThread signal_thread_{signals::StopSignals::usual()};
};

/// What stopped a rank of the job; empty: nothing.
std::string what_stopped(const comm::World& world, const signals::StopSignals& stop, Seconds deadline) {
  const auto mine = stop.received() ? text(signals::signal_name(stop.received()->number), " on ", world.name(world.rank())) : "";
  for (auto& theirs : mpi::all_gather_strings(world.control(), mine, deadline))
    if (!theirs.empty()) return theirs;
  return "";
}

void tokenize(const comm::World& world, const RunConfig& config, const ingest::CacheEvents& events, std::vector<SourceFiles>& sources) {
  const Preparation preparation{config, events};
  const auto mine = comm::outcome_of("tokenizing the data", [&] {
    for (auto& source : sources)
      if (!preparation.replace_text(source.training) || !preparation.replace_text(source.validation)) return;
  });
  wait_for_all(world);
  comm::agree(world, mine, config.comm.deadline);
  const auto stopped = what_stopped(world, preparation.stop(), config.comm.deadline);
  if (!stopped.empty())
    throw StoppedBeforeStart{
        ErrorKind::temporary,
        text(stopped, ": stopped before the first step; tokens made so far are kept, and the same job goes on from there")};
}

/// "shards.txt": a name on each line, relative to the manifest's folder; blank lines and lines that begin with # are passed over.
Paths listed_in(const std::filesystem::path& manifest) {
  Paths files;
  std::istringstream lines{files::read_text(manifest)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r')) line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    FLOTILLA_REQUIRE(std::ranges::none_of(line, [](unsigned char c) { return c < 0x20 || c == 0x7f; }), ErrorKind::bad_input,
                     manifest.string(), ":", number, ": expected a file name without control characters, got ", in_quotes(line));
    files.push_back(manifest.parent_path() / line);
  }
  FLOTILLA_REQUIRE(!files.empty(), ErrorKind::bad_input, manifest.string(), ": names no file; expected one on each line");
  return files;
}

Paths expanded(const std::vector<std::string>& names) {
  Paths files;
  for (const auto& name : names) std::ranges::copy(files::matching_files(name), std::back_inserter(files));
  return files;
}

SourceFiles files_of(const RunConfig::DataSource& source) {
  SourceFiles files{expanded(source.files), expanded(source.validation)};
  if (!source.manifest.empty()) std::ranges::copy(listed_in(source.manifest), std::back_inserter(files.training));
  return files;
}

/// A pattern may match more than was meant.
void require_apart(const std::vector<SourceFiles>& sources) {
  std::set<std::filesystem::path> training;
  for (const auto& source : sources) training.insert(source.training.begin(), source.training.end());
  for (const auto& source : sources)
    for (const auto& file : source.validation)
      FLOTILLA_REQUIRE(!training.contains(file), ErrorKind::bad_input, file.string(),
                       ": is training and validation data; take it out of one of them");
}

}  // namespace

std::vector<RunConfig::DataSource> sources_of(const RunConfig& config) {
  const auto& data = config.data;
  if (!data.sources.empty()) return data.sources;
  return {{.name = "", .files = data.train, .validation = data.validation, .manifest = ""}};
}

std::vector<SourceFiles> find_data_files(const comm::World& world, const RunConfig& config, const ingest::CacheEvents& events) {
  const auto deadline = config.comm.deadline;
  const auto sources = sources_of(config);
  std::vector<SourceFiles> files;
  comm::agree_on(
      world, "looking for the data",
      [&] {
        if (world.rank() != Rank{0}) return;
        for (const auto& source : sources) files.push_back(files_of(source));
        require_apart(files);
      },
      deadline);
  if (!config.data.tokenizer.empty()) tokenize(world, config, events, files);
  files.resize(sources.size());
  for (auto& source : files) source = {shared(world, source.training, deadline), shared(world, source.validation, deadline)};
  return files;
}

}  // namespace flotilla::session
