#include <algorithm>

#include "directory.hpp"
#include "flotilla/base/io_failure.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/store/file.hpp"
#include "state_file.hpp"

namespace flotilla::checkpoint {
namespace {

namespace fs = std::filesystem;

TensorDescription describe_tensor(const store::File& file, Kind kind, const std::string& name, bool verify) {
  const auto data = file.dataset(dataset_name(kind, name));
  TensorDescription result{kind, name, data.shape(), {data.elements() * 4}, Segments{data.shape()}.count(), {}};
  if (!verify) return result;
  open_tensor(file, kind, name, data.shape());
  const Segments segments{data.shape()};
  const auto expected = read_checksums(file, kind, name, data.shape());
  std::vector<float> values(static_cast<std::size_t>(segments.most_elements()));
  for (std::int64_t s = 0; s < segments.count(); ++s)
    if (read_segment(data, segments, s, values) != expected[static_cast<std::size_t>(s)]) result.damaged.push_back(s);
  return result;
}

}  // namespace

Manifest read_manifest(const fs::path& step_directory) {
  const auto path = step_directory / manifest_name;
  return manifest_from_json(files::read_text(path), path.string());
}

StateFile require_state_file(const fs::path& directory, const Manifest& manifest) {
  const auto path = directory / state_name;
  FLOTILLA_REQUIRE(manifest.files.size() == 1 && manifest.files.front().name == state_name, ErrorKind::bad_input,
                   (directory / manifest_name).string(), ": /files: expected one file, ", state_name);
  std::error_code error;
  const auto size = fs::file_size(path, error);
  FLOTILLA_REQUIRE(error != std::errc::no_such_file_or_directory, ErrorKind::bad_input, path.string(), ": the file is missing");
  FLOTILLA_REQUIRE(!error, io_error_kind(error.value()), path.string(), ": ", error.message());
  const auto& expected = manifest.files.front();
  FLOTILLA_REQUIRE(static_cast<std::int64_t>(size) == expected.size.count, ErrorKind::bad_input, path.string(), ": the file has ", size,
                   " bytes, the manifest says ", expected.size.count);
  return expected;
}

std::optional<Loaded> latest(const fs::path& run) {
  auto steps = list(run);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      return Loaded{step->directory, read_manifest(step->directory)};
    } catch (const Error& error) {
      log::warning(error.what(), "; looking at an earlier checkpoint");
    }
  }
  return std::nullopt;
}

std::int64_t Description::damaged_segments() const {
  std::int64_t count = 0;
  for (const auto& tensor : tensors) count += std::ssize(tensor.damaged);
  return count;
}

Description describe(const fs::path& step_directory, bool verify) {
  Description result{read_manifest(step_directory), {}, verify};
  require_state_file(step_directory, result.manifest);
  const auto file = store::File::open_for_reading(step_directory / state_name);
  for (auto kind : kinds)
    for (const auto& name : file.names(std::string{group_of(kind)})) result.tensors.push_back(describe_tensor(file, kind, name, verify));
  return result;
}

}  // namespace flotilla::checkpoint
