#include "partial_output.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/io_failure.hpp"
#include "flotilla/data/loss_mask.hpp"
#include "flotilla/data/megatron_writer.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/text_file.hpp"

namespace flotilla::ingest {
namespace {

namespace fs = std::filesystem;

constexpr const char* format = "flotilla-tokenize";
constexpr std::int64_t version = 3;
constexpr std::int64_t length_bytes = sizeof(std::int32_t), run_bytes = sizeof(data::TokenRun);

void require_absent(const fs::path& path) {
  FLOTILLA_REQUIRE(!files::facts_of(path), ErrorKind::bad_input, path.string(), ": exists already; remove it, or name another output");
}

/// As long as it was when it was committed; what was written later is written again.
std::unique_ptr<store::PlainFile> reopened(const fs::path& path, std::int64_t bytes) {
  if (bytes == 0) return std::make_unique<store::PlainFile>(store::PlainFile::create(path));
  auto file = std::make_unique<store::PlainFile>(store::PlainFile::open_for_writing(path));
  FLOTILLA_REQUIRE(file->size().count >= bytes, ErrorKind::bad_input, path.string(), ": shorter than what was committed, ", bytes,
                   " bytes; remove its folder and begin anew");
  file->cut_to(Bytes{bytes});
  return file;
}

/// A file that PartialOutput makes in its folder, or one that was being written when a process was killed.
bool is_own_name(std::string_view name) {
  constexpr std::array own{"lock", "state.json", "tokens", "lengths", "uncounted", "mask", "index"};
  const auto stem = files::stem_of_unfinished(name);
  return std::ranges::find(own, stem.empty() ? name : stem) != own.end();
}

/// A folder of this name that holds anything else is somebody's: nothing in it is written or removed.
void require_no_foreign_names(const fs::path& folder) {
  for (const auto& name : files::names_in(folder).value_or(std::vector<std::string>{}))
    FLOTILLA_REQUIRE(is_own_name(name), ErrorKind::bad_input, folder.string(), ": holds ", in_quotes(name),
                     ", which is no part of an unfinished output; move the folder away, or name another output");
}

void move_into_place(const fs::path& from, const fs::path& to) {
  require_absent(to);
  const int error = ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
  FLOTILLA_REQUIRE(error == 0, io_error_kind(error), to.string(), ": cannot be made: ", std::strerror(error));
}

}  // namespace

PartialOutput::PartialOutput(const fs::path& output, OutputIdentity identity, int token_bytes)
    : output_{output}, folder_{with_suffix(output, ".partial")}, identity_{std::move(identity)}, token_bytes_{token_bytes} {
  require_absent(with_suffix(output_, ".idx"));
  if (!files::facts_of(folder_)) {
    require_absent(with_suffix(output_, ".bin"));
    require_absent(with_suffix(output_, ".mask"));
  }
  files::make_own_folder(folder_);
  require_no_foreign_names(folder_);
  lock();
  require_unpublished();
  if (resumable()) read_state();
  latest_ = committed_;
  complete_ = files::facts_of(with_suffix(output_, ".bin")).has_value();
  if (complete_) return;
  tokens_ = reopened(folder_ / "tokens", committed_.counts.tokens * token_bytes_);
  lengths_ = reopened(folder_ / "lengths", committed_.counts.sequences * length_bytes);
  uncounted_ = reopened(folder_ / "uncounted", committed_.counts.uncounted_runs * run_bytes);
}

void PartialOutput::lock() {
  const auto path = folder_ / "lock";
  lock_.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0664));
  const int error = lock_ ? 0 : errno;
  FLOTILLA_REQUIRE(lock_, io_error_kind(error), path.string(), ": ", std::strerror(error));
  const bool held = ::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0;
  struct stat mine {};
  ::fstat(lock_.get(), &mine);
  const auto there = files::facts_of(path);
  // Whoever held it may have published and removed the folder since: what is locked then is nobody's file.
  if (!held || !there || there->inode != mine.st_ino)
    throw OutputBusy{ErrorKind::temporary,
                     text(folder_.string(), ": another process is writing this output; wait for it, or name another output")};
}

/// Another process may have published it since the first look; of a pair that is half in place, the rest must be here.
void PartialOutput::require_unpublished() {
  const auto tokens = with_suffix(output_, ".bin"), index = with_suffix(output_, ".idx");
  const bool published = files::facts_of(index).has_value();
  if (published) discard();
  require_absent(index);
  if (resumable() && files::facts_of(folder_ / "index") && !files::facts_of(folder_ / "tokens")) return;
  require_absent(tokens);
  require_absent(with_suffix(output_, ".mask"));
}

bool PartialOutput::resumable() const { return files::facts_of(folder_ / "state.json").has_value(); }

void PartialOutput::discard() {
  std::error_code left_behind;  // it does no harm
  std::vector<std::string> own;
  for (fs::directory_iterator at{folder_, left_behind}; at != fs::directory_iterator{}; at.increment(left_behind))
    if (auto name = at->path().filename().string(); is_own_name(name)) own.push_back(std::move(name));
  for (const auto& name : own) fs::remove(folder_ / name, left_behind);
  fs::remove(folder_, left_behind);
}

namespace {

template <class Of, class Visit>
void each_count(Of& counts, const Visit& visit) {
  visit("documents", counts.documents);
  visit("empty_documents", counts.empty_documents);
  visit("sequences", counts.sequences);
  visit("tokens", counts.tokens);
  visit("text_bytes", counts.text_bytes);
  visit("repaired_sequences", counts.repaired_sequences);
  visit("uncounted", counts.uncounted);
  visit("uncounted_runs", counts.uncounted_runs);
}

std::string to_json(const Counts& counts) {
  files::JsonLine line, reasons;
  each_count(counts, [&](const char* key, std::int64_t count) { line.add(key, count); });
  for (const auto& [reason, count] : counts.bad_lines.by_reason) reasons.add(reason, count);
  return line.add_json("bad_lines", reasons.text()).add_json("bad_places", files::json_array(counts.bad_lines.places)).text();
}

Counts counts_of(const files::Json& object) {
  Counts counts;
  each_count(counts, [&](const char* key, std::int64_t& count) { count = object.get_int64(key, 0); });
  const auto reasons = object.at("bad_lines");
  for (const auto& reason : reasons.keys()) counts.bad_lines.by_reason[reason] = reasons.get_int64(reason, 0);
  for (const auto& place : object.at("bad_places").items()) counts.bad_lines.places.push_back(place.as_string());
  return counts;
}

}  // namespace

/// Files that are done must be those that are named now; what comes behind them is read anew.
void PartialOutput::require_begun_alike(const files::Json& state) const {
  const auto done = static_cast<std::size_t>(state.get_int64("file", 0));
  const auto inputs = state.at("inputs").items();
  bool same = state.get_string("options") == identity_.options && done <= inputs.size() && done <= identity_.inputs.size();
  for (std::size_t i = 0; same && i < done; ++i) same = inputs[i].as_string() == identity_.inputs[i];
  const bool met = !counts_of(state.at("counts")).bad_lines.by_reason.empty();
  same = same && (!met || state.get_string("bad_lines") == bad_lines_names().at(static_cast<std::size_t>(identity_.bad_lines)));
  FLOTILLA_REQUIRE(same, ErrorKind::bad_input, folder_.string(),
                   ": begun with another tokenizer, other inputs or other options; repeat that command, or remove the folder");
}

void PartialOutput::read_state() {
  const auto state = files::Json::read(folder_ / "state.json");
  files::require_format(state, format, version);
  require_begun_alike(state);
  committed_.position = {static_cast<std::size_t>(state.get_int64("file", 0)), state.get_int64("offset", 0), state.get_int64("line", 0)};
  committed_.counts = counts_of(state.at("counts"));
  committed_.file = committed_.position.file;
  committed_.before_file = counts_of(state.at("before_file"));
  if (committed_.position.offset == 0) committed_.before_file = committed_.counts;
  const auto inputs = state.at("inputs").items();
  const auto file = committed_.file;
  const bool changed = file < inputs.size() && (file >= identity_.inputs.size() || inputs[file].as_string() != identity_.inputs[file]);
  if (!changed || committed_.position.offset == 0) return;
  committed_.position = {file, 0, 0};
  committed_.counts = committed_.before_file;
}

std::string PartialOutput::state() const {
  const auto& position = latest_.position;
  files::JsonLine line;
  line.add("format", format).add("version", version).add("options", identity_.options);
  line.add_json("inputs", files::json_array(identity_.inputs));
  line.add("bad_lines", bad_lines_names().at(static_cast<std::size_t>(identity_.bad_lines)));
  line.add("file", position.file).add("offset", position.offset).add("line", position.line);
  line.add_json("counts", to_json(latest_.counts)).add_json("before_file", to_json(latest_.before_file));
  return line.text() + "\n";
}

void PartialOutput::append(const EncodedBatch& batch) {
  if (batch.file != latest_.file) {
    latest_.file = batch.file;
    latest_.before_file = latest_.counts;
  }
  tokens_->write(batch.tokens, latest_.counts.tokens * token_bytes_);
  lengths_->write(std::as_bytes(std::span{batch.lengths}), latest_.counts.sequences * length_bytes);
  auto runs = batch.uncounted;
  for (auto& run : runs) run = {run.first + latest_.counts.tokens, run.last + latest_.counts.tokens};
  uncounted_->write(std::as_bytes(std::span{runs}), latest_.counts.uncounted_runs * run_bytes);
  latest_.counts.add(batch.counts);
  latest_.position = batch.after;
}

void PartialOutput::commit() {
  tokens_->flush();
  lengths_->flush();
  uncounted_->flush();
  files::write_text(folder_ / "state.json", state());
  committed_ = latest_;
}

void PartialOutput::write_mask() const {
  const auto runs = store::PlainFile::open_for_reading(folder_ / "uncounted");
  std::vector<data::TokenRun> block;
  std::size_t taken = 0;
  std::int64_t read = 0;
  const auto next = [&](data::TokenRun& run) {
    if (taken == block.size()) {
      block.resize(static_cast<std::size_t>(std::min<std::int64_t>(1 << 16, committed_.counts.uncounted_runs - read)));
      runs.read(std::as_writable_bytes(std::span{block}), read * run_bytes);
      read += std::ssize(block);
      taken = 0;
    }
    if (block.empty()) return false;
    run = block[taken++];
    return true;
  };
  data::write_loss_mask(folder_ / "mask", committed_.counts.tokens, next);
}

void PartialOutput::publish() {
  if (!complete_) {
    commit();
    if (committed_.counts.uncounted > 0) write_mask();
    data::write_megatron_index(folder_ / "index", store::PlainFile::open_for_reading(folder_ / "lengths"), token_bytes_);
    move_into_place(folder_ / "tokens", with_suffix(output_, ".bin"));
  }
  if (files::facts_of(folder_ / "mask")) move_into_place(folder_ / "mask", with_suffix(output_, ".mask"));
  // The index last: without it there is no pair.
  move_into_place(folder_ / "index", with_suffix(output_, ".idx"));
  discard();
}

}  // namespace flotilla::ingest
