#include <optional>

#include "combine.hpp"
#include "directory.hpp"
#include "exploded.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/store/plain_file.hpp"
#include "state_file.hpp"
#include "state_source.hpp"
#include "structure.hpp"

namespace flotilla::checkpoint {
namespace {

namespace fs = std::filesystem;

/// One save, phase by phase. Each phase ends in agreement: a failure on one rank is every rank's.
class Saver {
 public:
  Saver(const comm::World& world, const fs::path& run, const StateSource& source, const Manifest& manifest, const SaveOptions& options)
      : world_{world},
        run_{run},
        source_{source},
        tensors_{*source.tensors},
        manifest_{manifest},
        options_{options},
        index_{*source.tensors} {}

  SaveReport save() {
    const Seconds start = now();
    try {
      prepare();
      reserve();
      write();
      flush();
      verify();
      commit();
    } catch (...) {
      if (root() && !committed_ && !working_.empty()) remove(working_);
      throw;
    }
    prune();
    report_.total = now() - start;
    return report_;
  }

 private:
  bool root() const { return world_.rank().value == 0; }
  fs::path state_path() const { return working_ / state_name; }
  void begin(SavePhase phase) const {
    if (options_.on_phase) options_.on_phase(phase);
  }
  template <class Work>
  void agree_on(const char* what, Work&& work) const {
    comm::agree_on(world_, what, work, options_.deadline);
  }

  void prepare() {
    begin(SavePhase::prepare);
    comm::require_same(world_, "the checkpoint to save", text(run_.string(), " step ", manifest_.step, " tensors ", fingerprint(tensors_)),
                       options_.deadline);
    const Seconds start = now();
    std::vector<std::uint32_t> remainders(index_.size());
    std::vector<std::uint64_t> owned(tensors_.size());
    agree_on("computing checksums", [&] {
      bool exploded = false;
      source_.visit([&](const LocalState& state) {
        check_parts(state);
        add_owned_remainders(state, index_, remainders);
        add_owned_elements(state, owned);
        exploded = exploded || has_exploded(state);
      });
      if (source_.require_sound) source_.require_sound(remainders);
      owned.push_back(exploded);
    });
    agree_on("combining checksums", [&] {
      combine_xor(world_.control(), remainders, options_.deadline);
      combine_sum(world_.control(), owned, options_.deadline);
      checksums_ = broadcast(world_.control(), checksums_of(tensors_, index_, std::move(remainders)), options_.deadline);
      if (!root()) return;
      check_owned(owned);
      manifest_.exploded = manifest_.exploded || owned.back() > 0;
    });
    report_.checksum = now() - start;
  }

  /// Ours to get right, so an internal error; but one that all ranks hear of.
  void check_parts(const LocalState& state) const {
    for (const auto& part : state.parts)
      for (auto kind : kinds)
        FLOTILLA_REQUIRE(part.keeps(kind), ErrorKind::internal,
                         "checkpoint: ", dataset_name(kind, tensors_.at(static_cast<std::size_t>(part.tensor)).name), " has ",
                         part.values(kind).size(), " values in memory, its elements are ", part.elements());
  }

  void check_owned(const std::vector<std::uint64_t>& owned) const {
    for (std::size_t t = 0; t < tensors_.size(); ++t)
      FLOTILLA_REQUIRE(owned[t] == static_cast<std::uint64_t>(tensors_[t].elements()), ErrorKind::internal,
                       "checkpoint: ", tensors_[t].name, " has ", tensors_[t].elements(), " elements, of which the ranks own ", owned[t]);
  }

  void reserve() {
    begin(SavePhase::reserve);
    agree_on("preparing the checkpoint", [&] {
      if (root()) prepare_directory();
    });
    working_ = mpi::broadcast_string(world_.control(), working_.string(), 0, options_.deadline);
    agree_on("reserving space for the checkpoint", [&] {
      if (!root()) return;
      auto created = create_state_file(state_path(), tensors_, index_, checksums_, manifest_.step);
      manifest_.files = {std::move(created.facts)};
      manifest_.tensors = fingerprint(tensors_);
      manifest_.frozen = frozen_names(tensors_);
      offsets_ = std::move(created.offsets);
      prepare_manifest(working_, manifest_to_json(manifest_));
    });
    offsets_ = broadcast(world_.control(), offsets_, options_.deadline);
  }

  void prepare_directory() {
    for (const auto& folder : debris(run_)) remove(folder);
    const auto working = working_directory(run_, manifest_.step);
    make_directory(working);
    working_ = working;
  }

  /// Each rank for itself, past HDF5: a write that fails is an error like others, and the same save may work later.
  void write() {
    begin(SavePhase::write);
    const Seconds start = now();
    agree_on("writing the checkpoint", [&] {
      file_ = store::PlainFile::open_for_writing(state_path());
      source_.visit([&](const LocalState& state) { write_owned(*file_, offsets_, state); });
    });
    report_.write = now() - start;
  }

  /// By the descriptor that wrote: no other hears of every write that was lost.
  void flush() {
    begin(SavePhase::flush);
    const Seconds start = now();
    agree_on("flushing the checkpoint", [&] {
      file_->flush();
      report_.size = file_->size();
      file_.reset();
    });
    report_.flush = now() - start;
  }

  /// What is on the disk is what was in memory: the ranks share the segments out and read them back. Rank 0 opens the file as a load does:
  /// HDF5 does not notice every write that its buffers lose.
  void verify() {
    begin(SavePhase::verify);
    const Seconds start = now();
    agree_on("verifying the checkpoint", [&] {
      try {
        read_back();
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::bad_input) throw;
        throw Error{ErrorKind::temporary, text(error.what(), ": what was read back is not what was written")};
      }
    });
    report_.verify = now() - start;
  }

  void read_back() const {
    const auto file = store::PlainFile::open_for_reading(state_path());
    std::int64_t number = 0;
    for (auto kind : kinds)
      for (std::size_t t = 0; t < tensors_.size(); ++t)
        if (is_kept(kind, tensors_[t])) verify_share(file, kind, t, number);
    if (!root()) return;
    const auto& facts = manifest_.files.front();
    read_all_checksums(open_compared(state_path(), facts).structure, tensors_, index_, facts);
  }

  void verify_share(const store::PlainFile& file, StateKind kind, std::size_t tensor, std::int64_t& number) const {
    const Segments segments{tensors_[tensor].shape};
    const std::int64_t first = (world_.rank().value - number % world_.size() + world_.size()) % world_.size();
    number += segments.count();
    if (first >= segments.count()) return;
    const auto offset = offsets_[static_cast<std::size_t>(kind) * tensors_.size() + tensor];
    std::vector<float> values(static_cast<std::size_t>(segments.most_elements()));
    for (std::int64_t s = first; s < segments.count(); s += world_.size()) {
      const auto found = read_segment(file, offset, segments, s, values), expected = checksums_[index_.at(kind, tensor, s)];
      FLOTILLA_REQUIRE(found == expected, ErrorKind::bad_input,
                       describe_mismatch(state_path().string(), dataset_name(kind, tensors_[tensor].name), segments, s, found, expected));
    }
  }

  void commit() {
    begin(SavePhase::commit);
    agree_on("committing the checkpoint", [&] {
      if (!root()) return;
      checkpoint::commit(working_, run_, manifest_.step, committed_);
    });
    report_.directory = step_directory(run_, manifest_.step);
  }

  /// The checkpoint stands: what cannot be removed now is no failure.
  void prune() const {
    begin(SavePhase::prune);
    if (!root()) return;
    try {
      for (const auto& folder : debris(run_)) remove(folder);
      if (manifest_.exploded) warn_exploded();
      for (const auto& folder : beyond_keep(run_, manifest_.step, options_.keep)) remove(folder);
    } catch (const Error& error) {
      log::warning(error.what(), "; older checkpoints stay for now");
    }
  }

  void warn_exploded() const {
    log::warning(report_.directory.string(), ": its weights have exploded, or most steps before it were skipped; good checkpoints stay, ",
                 "and a restart prefers them");
  }

  static void remove(const fs::path& folder) {
    try {
      remove_step(folder);
    } catch (const std::exception& error) {
      log::warning(error.what());
    }
  }

  const comm::World& world_;
  const fs::path run_;
  const StateSource& source_;
  const std::vector<model::Tensor>& tensors_;
  Manifest manifest_;
  const SaveOptions& options_;
  const ChecksumIndex index_;
  std::vector<std::uint32_t> checksums_;
  fs::path working_;
  std::vector<std::int64_t> offsets_;  // of each tensor in the file, kind by kind
  std::optional<store::PlainFile> file_;
  bool committed_ = false;
  SaveReport report_;
};

}  // namespace

std::string_view to_string(SavePhase phase) {
  switch (phase) {
    case SavePhase::prepare: return "prepare";
    case SavePhase::reserve: return "reserve";
    case SavePhase::write: return "write";
    case SavePhase::flush: return "flush";
    case SavePhase::verify: return "verify";
    case SavePhase::commit: return "commit";
    case SavePhase::prune: return "prune";
  }
  FLOTILLA_ASSERT(false, "phase ", static_cast<int>(phase));
}

SaveReport save(const comm::World& world, const fs::path& run, const LocalState& state, const Manifest& manifest,
                const SaveOptions& options) {
  return save_from(world, run, {state.tensors, [&](const auto& take) { take(state); }, {}}, manifest, options);
}

SaveReport save_from(const comm::World& world, const fs::path& run, const StateSource& source, const Manifest& manifest,
                     const SaveOptions& options) {
  return Saver{world, run, source, manifest, options}.save();
}

}  // namespace flotilla::checkpoint
