#include <algorithm>
#include <charconv>

#include "child.hpp"
#include "directory.hpp"
#include "flotilla/base/io_failure.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/store/file.hpp"
#include "state_file.hpp"
#include "structure.hpp"

namespace flotilla::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr Bytes largest_manifest{16 << 20};
constexpr std::int64_t largest_buffer = std::int64_t{1} << 28;  // elements: a segment is one row at least, and a forged row has any length

std::vector<std::int64_t> damaged_segments(const StateReader& file, StateKind kind, const std::string& name, const store::Dataset& data) {
  const Segments segments{data.shape()};
  const auto expected = read_checksums(file.structure, kind, name, data.shape());
  FLOTILLA_REQUIRE(segments.most_elements() <= largest_buffer, ErrorKind::bad_input, file.data.path().string(), ": ", data.name(),
                   ": a row has more than ", largest_buffer, " elements, which no model's has");
  std::vector<float> values(static_cast<std::size_t>(segments.most_elements()));
  std::vector<std::int64_t> damaged;
  const auto offset = data.file_offset().count;
  for (std::int64_t s = 0; s < segments.count(); ++s)
    if (read_segment(file.data, offset, segments, s, values) != expected[static_cast<std::size_t>(s)]) damaged.push_back(s);
  return damaged;
}

TensorDescription describe_tensor(const StateReader& file, StateKind kind, const std::string& name, bool verify) {
  const auto data = file.structure.dataset(dataset_name(kind, name));
  TensorDescription result{kind, name, data.shape(), {data.elements() * 4}, Segments{data.shape()}.count(), {}};
  if (!verify) return result;
  open_tensor(file.structure, kind, name, data.shape());
  result.damaged = damaged_segments(file, kind, name, data);
  return result;
}

std::vector<TensorDescription> describe_tensors(const StateReader& file, bool verify) {
  std::vector<TensorDescription> tensors;
  for (auto kind : kinds)
    for (const auto& name : file.structure.names(std::string{group_of(kind)})) tensors.push_back(describe_tensor(file, kind, name, verify));
  return tensors;
}

/// What a load would refuse: tensors that are missing, misshapen or swapped. The plan says which there must be.
void require_planned_tensors(const store::File& file, const fs::path& directory, const Manifest& manifest) {
  if (manifest.plan.empty()) return;
  const auto place = (directory / manifest_name).string();
  const auto tensors = model::tensors(files::plan_from_json(manifest.plan, place + ": /plan").model);
  FLOTILLA_REQUIRE(fingerprint(tensors) == manifest.tensors, ErrorKind::bad_input, place,
                   ": /tensors: the checkpoint is of another model than its plan");
  const auto saved = as_saved(tensors, manifest);
  read_all_checksums(file, saved, ChecksumIndex{saved}, manifest.files.front());
}

std::string to_line(const TensorDescription& tensor) {
  files::JsonLine line;
  line.add("kind", static_cast<int>(tensor.kind)).add("name", tensor.name).add_json("shape", files::json_array(tensor.shape));
  line.add("segments", tensor.segments).add_json("damaged", files::json_array(tensor.damaged));
  return line.text();
}

std::vector<std::int64_t> numbers_in(const files::Json& array) {
  std::vector<std::int64_t> numbers;
  for (const auto& number : array.items()) numbers.push_back(number.as_int64());
  return numbers;
}

TensorDescription from_json(const files::Json& json) {
  TensorDescription tensor;
  tensor.kind = static_cast<StateKind>(json.get_int("kind"));
  tensor.name = json.get_string("name");
  tensor.shape = numbers_in(json.at("shape"));
  tensor.size = {4};
  for (const auto extent : tensor.shape) tensor.size = tensor.size * extent;
  tensor.segments = json.get_int64("segments");
  tensor.damaged = numbers_in(json.at("damaged"));
  return tensor;
}

}  // namespace

std::string manifest_text(const fs::path& directory) {
  const auto path = directory / manifest_name;
  const auto content = files::read_text_if_there(path, largest_manifest);
  FLOTILLA_REQUIRE(content, ErrorKind::bad_input, path.string(), ": the file is missing");  // damage: others may be whole
  return *content;
}

Manifest manifest_in(const fs::path& directory, std::string_view content) {
  const auto source = (directory / manifest_name).string();
  auto manifest = manifest_from_json(content, source);
  const auto name = directory.filename().string();
  const bool of_step = name.starts_with("step-") && name.find_first_not_of("0123456789", 5) == name.npos;
  FLOTILLA_REQUIRE(!of_step || name == step_directory("", manifest.step).string(), ErrorKind::bad_input, source, ": /step: is ",
                   manifest.step, ", not that of the folder");
  return manifest;
}

Manifest read_manifest(const fs::path& step_directory) { return manifest_in(step_directory, manifest_text(step_directory)); }

StateFile require_state_file(const fs::path& directory, const Manifest& manifest) {
  const auto path = directory / state_name;
  FLOTILLA_REQUIRE(manifest.files.size() == 1 && manifest.files.front().name == state_name, ErrorKind::bad_input,
                   (directory / manifest_name).string(), ": /files: expected one file, ", state_name);
  FLOTILLA_REQUIRE(files::facts_of(path), ErrorKind::bad_input, path.string(), ": the file is missing");
  std::error_code error;
  std::uintmax_t size = 0;
  patiently(path.native(), [&] {
    size = fs::file_size(path, error);
    return error.value();
  });
  FLOTILLA_REQUIRE(error != std::errc::no_such_file_or_directory, ErrorKind::bad_input, path.string(), ": a link that leads nowhere");
  FLOTILLA_REQUIRE(error != std::errc::is_a_directory && error != std::errc::operation_not_supported, ErrorKind::bad_input, path.string(),
                   ": is not a regular file");
  FLOTILLA_REQUIRE(!error, io_error_kind(error.value()), path.string(), ": ", error.message());
  const auto& expected = manifest.files.front();
  FLOTILLA_REQUIRE(static_cast<std::int64_t>(size) == expected.size.count, ErrorKind::bad_input, path.string(), ": the file has ", size,
                   " bytes, the manifest says ", expected.size.count);
  return expected;
}

StateReader open_state(const fs::path& directory, const Manifest& manifest) {
  const auto path = directory / state_name;
  auto file = open_compared(path, require_state_file(directory, manifest));
  const auto step = file.structure.read_integer("step");
  FLOTILLA_REQUIRE(step == manifest.step, ErrorKind::bad_input, path.string(), ": attribute step: is ", step, ", the manifest says ",
                   manifest.step);
  return file;
}

std::optional<Loaded> latest(const fs::path& run) {
  auto steps = list(run);
  std::optional<Loaded> exploded;
  std::string newest;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      Loaded found{step->directory, read_manifest(step->directory)};
      if (!found.manifest.exploded) return found;
      if (!exploded) exploded = std::move(found);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::bad_input) throw;
      if (newest.empty()) newest = error.what();
      log::warning(error.what(), "; looking at an earlier checkpoint");
    }
  }
  FLOTILLA_REQUIRE(exploded || newest.empty(), ErrorKind::bad_input, run.string(), ": no checkpoint can be read; the newest: ", newest,
                   "; --run.start-over begins anew");
  return exploded;
}

std::int64_t Description::damaged_segments() const {
  std::int64_t count = 0;
  for (const auto& tensor : tensors) count += std::ssize(tensor.damaged);
  return count;
}

Description describe(const fs::path& step_directory, bool verify) {
  Description result{read_manifest(step_directory), {}, verify};
  const auto file = open_state(step_directory, result.manifest);
  require_planned_tensors(file.structure, step_directory, result.manifest);
  result.tensors = describe_tensors(file, verify);
  return result;
}

std::vector<TensorDescription> describe_bare(const fs::path& state, bool verify) {
  const auto lines = in_child(state, [&] {
    std::string all;
    const StateReader file{store::PlainFile::open_for_reading(state), store::File::open_for_reading(state)};
    for (const auto& tensor : describe_tensors(file, verify)) all += (all.empty() ? "" : ", ") + to_line(tensor);
    return "[" + all + "]";
  });
  std::vector<TensorDescription> tensors;
  for (const auto& tensor : files::Json::parse(lines, state.string()).items()) tensors.push_back(from_json(tensor));
  return tensors;
}

}  // namespace flotilla::checkpoint
