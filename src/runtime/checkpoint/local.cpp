#include "flotilla/checkpoint/local.hpp"

#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <sstream>

#include "checksums.hpp"
#include "directory.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/io_failure.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/store/disk.hpp"
#include "part_file.hpp"
#include "state_file.hpp"
#include "state_source.hpp"

namespace flotilla::checkpoint {
namespace {

namespace fs = std::filesystem;

fs::path path_of(const LocalPlace& place, const PartName& name) { return place.folder / to_string(name); }

PartHeader header_for(const comm::World& world, const PartName& name, const LocalState& state, Manifest manifest) {
  PartHeader header;
  header.name = name;
  for (int r = 0; r < world.size(); ++r) header.hosts.push_back(world.host(Rank{r}));
  if (name.rank == 0) {
    manifest.tensors = fingerprint(*state.tensors);
    manifest.frozen = frozen_names(*state.tensors);
    header.manifest = manifest_to_json(manifest);
  }
  header.remainders = remainder_of_table(owned_remainders(state, ChecksumIndex{*state.tensors}));
  header.blocks = blocks_of(state);
  return header;
}

void put_in_place(const fs::path& part) {
  FLOTILLA_REQUIRE(::rename(unfinished_part(part).c_str(), part.c_str()) == 0, io_error_kind(errno), part.string(),
                   ": cannot be renamed into place: ", std::strerror(errno));
  store::flush(part.parent_path());
}

void remove_file(const fs::path& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) log::warning(path.string(), ": cannot be removed: ", std::strerror(errno));
}

/// Removes the parts that `chosen` names. Another rank of the node may be at it, too.
template <class Chosen>
void remove_chosen(const LocalPlace& place, const Chosen& chosen) noexcept {
  try {
    for (const auto& name : files::names_in(place.folder).value_or(std::vector<std::string>{})) {
      bool unfinished = false;
      if (const auto part = part_name_of(name, unfinished); part && chosen(*part)) remove_file(place.folder / name);
    }
  } catch (const std::exception& error) {
    log::warning(error.what(), "; old local checkpoints stay for now");
  }
}

/// Part by part, who sees it.
using Sightings = std::map<std::pair<int, std::int64_t>, std::map<int, std::vector<std::set<int>>>>;

std::string parts_seen(const LocalPlace& place, int first_incarnation) {
  std::string words;
  for (const auto& name : files::names_in(place.folder).value_or(std::vector<std::string>{})) {
    bool unfinished = false;
    const auto part = part_name_of(name, unfinished);
    if (part && !unfinished && part->incarnation >= first_incarnation)
      words += text(part->incarnation, " ", part->step, " ", part->rank, " ", part->ranks, " ");
  }
  return words;
}

Sightings sightings(const std::vector<std::string>& by_rank) {
  Sightings found;
  for (std::size_t reader = 0; reader < by_rank.size(); ++reader) {
    std::istringstream in{by_rank[reader]};
    PartName part;
    while (in >> part.incarnation >> part.step >> part.rank >> part.ranks) {
      auto& parts = found[{part.incarnation, part.step}][part.ranks];
      parts.resize(static_cast<std::size_t>(part.ranks));
      parts[static_cast<std::size_t>(part.rank)].insert(static_cast<int>(reader));
    }
  }
  return found;
}

/// The rank that wrote a part reads it where it sees it; else the one with the fewest.
std::vector<int> dealt(const std::vector<std::set<int>>& seen) {
  std::map<int, int> load;
  std::vector<int> readers(seen.size(), -1);
  for (std::size_t part = 0; part < seen.size(); ++part) {
    const auto& who = seen[part];
    if (who.empty()) continue;
    const int own = static_cast<int>(part);
    readers[part] = who.contains(own) ? own : *std::ranges::min_element(who, {}, [&](int rank) { return load[rank]; });
    ++load[readers[part]];
  }
  return readers;
}

/// The parts that this rank reads.
std::vector<PartReader> open_parts(const comm::World& world, const LocalPlace& place, const LocalCheckpoint& checkpoint) {
  std::vector<PartReader> parts;
  const int ranks = static_cast<int>(checkpoint.readers.size());
  for (int part = 0; part < ranks; ++part) {
    const PartName name{checkpoint.step, checkpoint.incarnation, part, ranks};
    if (checkpoint.readers[static_cast<std::size_t>(part)] == world.rank().value) parts.emplace_back(path_of(place, name), name);
  }
  return parts;
}

void require_as_written(const std::vector<PartReader>& parts, std::span<const std::uint32_t> remainders) {
  std::uint32_t expected = 0;
  std::string names;
  for (const auto& part : parts) {
    expected ^= part.header().remainders;
    names += (names.empty() ? "" : ", ") + part.path().string();
  }
  const auto found = remainder_of_table(remainders);
  FLOTILLA_REQUIRE(found == expected, ErrorKind::bad_input, names, ": its data have checksum ", hex8(found), ", expected ", hex8(expected),
                   ": the local checkpoint is damaged");
}

}  // namespace

bool LocalCheckpoint::complete() const { return std::ranges::find(readers, -1) == readers.end(); }

LocalCheckpoint saved_locally(const comm::World& world, const LocalPlace& place, std::int64_t step) {
  LocalCheckpoint saved{step, place.incarnation, {}};
  for (int r = 0; r < world.size(); ++r) saved.readers.push_back(r);
  return saved;
}

SaveReport save_locally(const comm::World& world, const LocalPlace& place, const LocalState& state, const Manifest& manifest,
                        const SaveOptions& options) {
  const Seconds start = now();
  const auto begin = [&](SavePhase phase) {
    if (options.on_phase) options.on_phase(phase);
  };
  const PartName name{manifest.step, place.incarnation, world.rank().value, world.size()};
  const auto path = path_of(place, name);
  SaveReport report;
  report.directory = place.folder;
  try {
    comm::agree_on(
        world, "saving on the nodes' storage",
        [&] {
          begin(SavePhase::prepare);
          const auto header = header_for(world, name, state, manifest);
          report.checksum = now() - start;
          begin(SavePhase::write);
          const auto file = write_part(unfinished_part(path), header, state);
          report.write = now() - start - report.checksum;
          begin(SavePhase::flush);
          file.flush();
          report.size = file.size();
          report.flush = now() - start - report.checksum - report.write;
        },
        options.deadline);
    begin(SavePhase::commit);
    comm::agree_on(
        world, "committing on the nodes' storage", [&] { put_in_place(path); }, options.deadline);
  } catch (const comm::AgreedError&) {
    remove_file(unfinished_part(path));
    remove_file(path);
    throw;
  }
  std::int64_t bytes = 0;
  for (const auto theirs : mpi::all_gather(world.control(), report.size.count, options.deadline)) bytes += theirs;
  report.size = Bytes{bytes};
  report.total = now() - start;
  return report;
}

std::vector<LocalCheckpoint> list_local(const comm::World& world, const LocalPlace& place, int first_incarnation, Seconds deadline) {
  const auto mine = comm::agree_on(
      world, "looking for local checkpoints", [&] { return parts_seen(place, first_incarnation); }, deadline);
  std::vector<LocalCheckpoint> found;
  for (const auto& [key, by_ranks] : sightings(mpi::all_gather_strings(world.control(), mine, deadline)))
    for (const auto& [ranks, seen] : by_ranks) found.push_back({key.second, key.first, dealt(seen)});
  std::ranges::reverse(found);
  return found;
}

std::string missing_hosts(const comm::World& world, const LocalPlace& place, const LocalCheckpoint& checkpoint, Seconds deadline) {
  const auto mine = comm::agree_on(
      world, "looking for the hosts of local checkpoints",
      [&] {
        std::set<std::string> missing;
        try {
          const auto parts = open_parts(world, place, checkpoint);
          for (std::size_t p = 0; p < checkpoint.readers.size() && !parts.empty(); ++p)
            if (checkpoint.readers[p] < 0) missing.insert(parts.front().header().hosts[p]);
        } catch (const Error& error) {
          if (error.kind() != ErrorKind::bad_input) throw;
        }
        std::string words;
        for (const auto& host : missing) words += (words.empty() ? "" : ", ") + host;
        return words;
      },
      deadline);
  for (const auto& words : mpi::all_gather_strings(world.control(), mine, deadline))
    if (!words.empty()) return words;
  return {};
}

SaveReport drain(const comm::World& world, const LocalPlace& place, const LocalCheckpoint& checkpoint,
                 const std::vector<model::Tensor>& tensors, const fs::path& run, const SaveOptions& options) {
  FLOTILLA_ASSERT(checkpoint.complete(), "a local checkpoint without all its parts");
  const auto parts = comm::agree_on(
      world, "opening the local checkpoint", [&] { return open_parts(world, place, checkpoint); }, options.deadline);
  const int first = checkpoint.readers.front();
  const auto words =
      mpi::broadcast_string(world.control(), world.rank().value == first ? parts.front().header().manifest : "", first, options.deadline);
  Manifest manifest;
  const auto saved = comm::agree_on(
      world, "reading the local checkpoint's manifest",
      [&] {
        const auto source = text("local checkpoint of step ", checkpoint.step);
        manifest = manifest_from_json(words, source);
        FLOTILLA_REQUIRE(manifest.step == checkpoint.step && manifest.tensors == fingerprint(tensors), ErrorKind::bad_input, source,
                         ": is of another step or model");
        return as_saved(tensors, manifest);
      },
      options.deadline);
  StateSource source;
  source.tensors = &saved;
  source.visit = [&](const auto& take) {
    for (const auto& part : parts) part.visit(saved, take);
  };
  source.require_sound = [&](std::span<const std::uint32_t> remainders) { require_as_written(parts, remainders); };
  return save_from(world, run, source, manifest, options);
}

void remove_parts(const LocalPlace& place, Rank rank, std::int64_t step, std::int64_t kept) noexcept {
  remove_chosen(place, [&](const PartName& part) { return part.rank == rank.value && part.step <= step && part.step != kept; });
}

void remove_all_parts(const LocalPlace& place) noexcept {
  remove_chosen(place, [](const PartName&) { return true; });
}

}  // namespace flotilla::checkpoint
