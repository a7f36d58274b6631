#include <algorithm>
#include <sstream>

#include "directory.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/magnitudes.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/checkpoint/stored_parameters.hpp"
#include "flotilla/comm/agree.hpp"
#include "state_file.hpp"
#include "structure.hpp"

namespace flotilla::checkpoint {
namespace {

namespace fs = std::filesystem;

/// The manifest as rank 0 reads it, on every rank.
Manifest read_together(const comm::World& world, const fs::path& directory, Seconds deadline) {
  const auto mine = comm::agree_on(
      world, "reading the manifest", [&] { return world.rank().value == 0 ? manifest_text(directory) : std::string{}; }, deadline);
  const auto content = mpi::broadcast_string(world.control(), mine, 0, deadline);
  return comm::agree_on(
      world, "reading the manifest", [&] { return manifest_in(directory, content); }, deadline);
}

void require_model(const fs::path& directory, const Manifest& manifest, const std::vector<model::Tensor>& tensors) {
  FLOTILLA_REQUIRE(manifest.tensors == fingerprint(tensors), ErrorKind::bad_input, (directory / manifest_name).string(),
                   ": /tensors: the checkpoint is of another model: names or shapes of its tensors differ; resume with the model it was "
                   "saved with, or start in another run directory");
}

void require_same_model(const comm::World& world, const fs::path& directory, const Manifest& manifest, const LocalState& state,
                        Seconds deadline) {
  comm::agree_on(
      world, "comparing the model", [&] { require_model(directory, manifest, *state.tensors); }, deadline);
}

/// Copies what a box and a run of the whole have in common; `run_values` begins at the run's first element.
void copy_common(const plan::Box& box, const ElementRange& run, std::span<const float> run_values, std::span<float> local) {
  const std::int64_t stride = std::max<std::int64_t>(box.global_stride, 1);
  const std::int64_t before = run.first - box.global_offset - box.inner + 1;  // runs of the box that end before
  for (std::int64_t o = before > 0 && box.outer > 1 ? (before + stride - 1) / stride : 0; o < box.outer; ++o) {
    const std::int64_t start = box.global_offset + o * box.global_stride;
    const std::int64_t first = std::max(start, run.first), last = std::min(start + box.inner, run.last());
    if (start >= run.last()) return;
    if (first < last)
      std::copy_n(run_values.begin() + (first - run.first), last - first,
                  local.begin() + (box.local_offset + o * box.local_stride + first - start));
  }
}

/// Segments that hold some element of the boxes, ascending.
std::vector<std::int64_t> segments_of(const std::vector<plan::Box>& boxes, const Segments& segments) {
  std::vector<bool> needed(static_cast<std::size_t>(segments.count()));
  for (const auto& box : boxes)
    for (std::int64_t o = 0; o < box.outer && box.inner > 0; ++o) {
      const std::int64_t first = box.global_offset + o * box.global_stride;
      const std::int64_t last = segments.of_element(first + box.inner - 1);
      for (std::int64_t s = segments.of_element(first); s <= last; ++s) needed[static_cast<std::size_t>(s)] = true;
    }
  std::vector<std::int64_t> result;
  for (std::int64_t s = 0; s < segments.count(); ++s)
    if (needed[static_cast<std::size_t>(s)]) result.push_back(s);
  return result;
}

class Loader {
 public:
  Loader(const StateReader& file, const std::vector<model::Tensor>& tensors, const StateFile& expected)
      : file_{file}, tensors_{tensors}, index_{tensors}, checksums_{read_all_checksums(file.structure, tensors, index_, expected)} {}

  /// Elements of the boxes, to their places in `values`. Throws Error{bad_input} where `precision` cannot hold those of their segments.
  void load(StateKind kind, int which, const std::vector<plan::Box>& boxes, std::span<float> values,
            Precision precision = Precision::fp32) {
    const auto number = static_cast<std::size_t>(which);
    const auto& tensor = tensors_.at(number);
    const Segments segments{tensor.shape};
    const auto data = open_tensor(file_.structure, kind, tensor.name, tensor.shape);
    const auto offset = data.file_offset().count;
    ValueCheck check{precision};
    buffer_.resize(static_cast<std::size_t>(segments.most_elements()));
    for (auto segment : segments_of(boxes, segments)) {
      const auto found = read_segment(file_.data, offset, segments, segment, buffer_);
      const auto expected = checksums_[index_.at(kind, number, segment)];
      FLOTILLA_REQUIRE(found == expected, ErrorKind::bad_input,
                       describe_mismatch(file_.data.path().string(), data.name(), segments, segment, found, expected),
                       ": the file is damaged; an earlier checkpoint may be whole");
      check.add(std::span{buffer_}.first(static_cast<std::size_t>(segments.run(segment).count)));
      for (const auto& box : boxes) copy_common(box, segments.run(segment), buffer_, values);
    }
    FLOTILLA_REQUIRE(check.passed(), ErrorKind::bad_input, file_.data.path().string(), ": ", data.name(), ": ", check.in_words(),
                     "; nothing goes on from there: take an earlier checkpoint (--run.from), or a precision that holds it");
  }

 private:
  const StateReader& file_;
  const std::vector<model::Tensor>& tensors_;
  ChecksumIndex index_;
  std::vector<std::uint32_t> checksums_;
  std::vector<float> buffer_;
};

void load_parts(const fs::path& directory, const Manifest& manifest, const LocalState& state) {
  for (const auto& part : state.parts)
    for (auto kind : kinds)
      FLOTILLA_REQUIRE(part.keeps(kind), ErrorKind::internal, "checkpoint: part of tensor ", part.tensor, " has ", part.values(kind).size(),
                       " values in memory, its elements are ", part.elements());
  const auto expected = require_state_file(directory, manifest);
  const auto file = open_state(directory, manifest);
  const auto saved = as_saved(*state.tensors, manifest);
  Loader loader{file, saved, expected};
  for (const auto& part : state.parts) {
    const auto& tensor = saved[static_cast<std::size_t>(part.tensor)];
    for (auto kind : kinds)
      if (!is_kept(kind, tensor))
        std::ranges::fill(part.values(kind), 0.0f);  // it was frozen: its moments begin
      else if (!part.values(kind).empty())
        loader.load(kind, part.tensor, part.boxes_in(tensor), part.values(kind),
                    kind == StateKind::parameters ? part.precision : Precision::fp32);
  }
}

std::vector<fs::path> newest_first(const comm::World& world, const fs::path& run, Seconds deadline) {
  std::string numbers;
  comm::agree_on(
      world, "looking for checkpoints",
      [&] {
        if (world.rank().value != 0) return;
        auto steps = list(run);
        for (auto step = steps.rbegin(); step != steps.rend(); ++step) numbers += text(step->step, " ");
      },
      deadline);
  std::istringstream in{mpi::broadcast_string(world.control(), numbers, 0, deadline)};
  std::vector<fs::path> directories;
  for (std::int64_t step = 0; in >> step;) directories.push_back(step_directory(run, step));
  return directories;
}

std::string exploded_words(const fs::path& directory) {
  return text(directory.string(), ": its weights have exploded, or most steps before it were skipped");
}

/// What is wrong with this checkpoint, when that is damage, or weights that no training goes on from unless they are the last resort;
/// anything else is thrown.
std::optional<std::string> try_load(const comm::World& world, const fs::path& directory, const LocalState& state, Seconds deadline,
                                    Manifest& manifest, bool last_resort) {
  try {
    manifest = read_together(world, directory, deadline);
  } catch (const comm::AgreedError& error) {
    if (error.kind() != ErrorKind::bad_input) throw;
    return error.what();
  }
  require_same_model(world, directory, manifest, state, deadline);
  if (manifest.exploded && !last_resort) return exploded_words(directory);
  try {
    comm::agree_on(
        world, "loading the checkpoint", [&] { load_parts(directory, manifest, state); }, deadline);
  } catch (const comm::AgreedError& error) {
    if (error.kind() != ErrorKind::bad_input) throw;
    return error.what();
  }
  return std::nullopt;
}

}  // namespace

struct StoredParameters::State {
  State(const fs::path& directory, const Manifest& manifest, const std::vector<model::Tensor>& tensors)
      : saved{as_saved(tensors, manifest)},
        expected{require_state_file(directory, manifest)},
        file{open_state(directory, manifest)},
        loader{file, saved, expected} {}
  const std::vector<model::Tensor> saved;
  const StateFile expected;
  const StateReader file;
  Loader loader;
};

StoredParameters::StoredParameters(const fs::path& step_directory, const std::vector<model::Tensor>& tensors) {
  const auto manifest = read_manifest(step_directory);
  require_model(step_directory, manifest, tensors);
  state_ = std::make_unique<State>(step_directory, manifest, tensors);
}
StoredParameters::~StoredParameters() = default;

void StoredParameters::read(int tensor, const std::vector<plan::Box>& boxes, std::span<float> values) {
  state_->loader.load(StateKind::parameters, tensor, boxes, values);
}

Manifest load(const comm::World& world, const fs::path& step_directory, const LocalState& state, const LoadOptions& options) {
  Manifest manifest;
  if (const auto damage = try_load(world, step_directory, state, options.deadline, manifest, true))
    throw comm::AgreedError{ErrorKind::bad_input, *damage};
  return manifest;
}

Loaded load_newest_good(const comm::World& world, const fs::path& run, const LocalState& state, const LoadOptions& options) {
  std::string newest;
  auto directories = newest_first(world, run, options.deadline);
  const std::size_t all = directories.size();
  for (std::size_t i = 0; i < directories.size(); ++i) {
    const auto directory = directories[i];
    Loaded loaded{directory, {}};
    const bool last_resort = i >= all;
    const auto damage = try_load(world, directory, state, options.deadline, loaded.manifest, last_resort);
    if (!damage) return loaded;
    if (*damage == exploded_words(directory))
      directories.push_back(directory);
    else if (newest.empty())
      newest = *damage;
    if (world.rank().value == 0) log::warning(*damage, "; trying an earlier checkpoint");
  }
  throw comm::AgreedError{ErrorKind::bad_input, newest.empty() ? text(run.string(), ": there is no committed checkpoint")
                                                               : text(run.string(), ": no checkpoint can be loaded; the newest: ", newest)};
}

}  // namespace flotilla::checkpoint
