#include "state_file.hpp"

#include <algorithm>

#include "directory.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/store/disk.hpp"
#include "structure.hpp"

namespace flotilla::checkpoint {
namespace {

constexpr std::int64_t element_bytes = 4;

// Upper bounds on what HDF5 adds (1.10.8 takes 350 to 420 bytes a dataset): object header, link and index of a dataset beside its name;
// the padding before a large one; the file's own.
constexpr std::int64_t bytes_per_dataset = 512, padding = 4096, padded_from = 64 << 10, bytes_per_file = 16 << 10;

/// Bound on what a dataset takes in the file.
std::int64_t room_for(std::int64_t content_bytes, const std::string& name) {
  return content_bytes + (content_bytes >= padded_from ? padding : 0) + bytes_per_dataset + std::ssize(name);
}

void create_datasets(const store::File& file, const std::vector<model::Tensor>& tensors, const ChecksumIndex& index,
                     std::vector<std::uint32_t>& checksums) {
  for (auto kind : kinds)
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      file.create_dataset(dataset_name(kind, tensors[t].name), tensors[t].shape, store::Element::fp32);
      const auto numbers = index.part(checksums, kind, t);
      file.create_dataset(checksum_name(kind, tensors[t].name), {std::ssize(numbers)}, store::Element::uint32).write_all(numbers);
    }
}

}  // namespace

std::string hex8(std::uint32_t value) { return hex(value).substr(8); }

std::string_view group_of(Kind kind) {
  switch (kind) {
    case Kind::parameters: return "parameters";
    case Kind::moment1: return "adamw/moment1";
    case Kind::moment2: return "adamw/moment2";
  }
  FLOTILLA_ASSERT(false, "kind ", static_cast<int>(kind));
}

std::string dataset_name(Kind kind, const std::string& tensor) { return text(group_of(kind), "/", tensor); }
std::string checksum_name(Kind kind, const std::string& tensor) { return "checksums/" + dataset_name(kind, tensor); }

std::string fingerprint(const std::vector<model::Tensor>& tensors) {
  std::string lines;
  for (const auto& tensor : tensors) {
    lines += tensor.name;
    for (auto extent : tensor.shape) lines += text(" ", extent);
    lines += "\n";
  }
  return hex(fnv1a(lines));
}

Bytes predicted_size(const std::vector<model::Tensor>& tensors) {
  std::int64_t bytes = bytes_per_file;
  for (const auto& tensor : tensors) {
    const std::int64_t values = room_for(tensor.elements() * element_bytes, tensor.name);
    bytes += std::ssize(kinds) * (values + room_for(Segments{tensor.shape}.count() * element_bytes, tensor.name));
  }
  return {bytes};
}

StateFile create_state_file(const std::filesystem::path& path, const std::vector<model::Tensor>& tensors, const ChecksumIndex& index,
                            std::vector<std::uint32_t>& checksums, std::int64_t step) {
  store::File::create_reserved(path, predicted_size(tensors));
  auto file = store::File::open_for_writing(path);
  file.write_attribute("format", std::string{"flotilla-checkpoint"});
  file.write_attribute("version", 1);
  file.write_attribute("step", step);
  create_datasets(file, tensors, index, checksums);
  StateFile result{std::string{state_name}, {}, checksum_of_table(checksums)};
  result.tensor_ranges = ranges_of(open_tensors(file, tensors));
  file.close();
  result.size = files::facts_of(path).value_or(files::FileFacts{}).size;
  store::reserve(path, result.size);
  return result;
}

std::vector<store::Dataset> open_tensors(const store::File& file, const std::vector<model::Tensor>& tensors) {
  std::vector<store::Dataset> datasets;
  for (auto kind : kinds)
    for (const auto& tensor : tensors) datasets.push_back(file.dataset(dataset_name(kind, tensor.name)));
  return datasets;
}

void write_owned(const std::vector<store::Dataset>& datasets, const LocalState& state) {
  for (auto kind : kinds)
    for (const auto& part : state.parts) {
      if (!part.owner) continue;
      const auto number = static_cast<std::size_t>(part.tensor);
      const auto& data = datasets[static_cast<std::size_t>(kind) * state.tensors->size() + number];
      for (const auto& box : part.boxes_in((*state.tensors)[number])) data.write(part.values(kind), box);
    }
}

store::Dataset open_tensor(const store::File& file, Kind kind, const std::string& name, const std::vector<std::int64_t>& shape) {
  auto data = file.dataset(dataset_name(kind, name));
  FLOTILLA_REQUIRE(data.element() == store::Element::fp32, ErrorKind::bad_input, file.path().string(), ": ", data.name(),
                   ": expected elements of type float");
  if (data.shape() == shape) return data;
  const auto spell = [](const std::vector<std::int64_t>& extents) {
    std::string word;
    for (auto extent : extents) word += text(word.empty() ? "" : " x ", extent);
    return word;
  };
  throw Error{ErrorKind::bad_input,
              text(file.path().string(), ": ", data.name(), ": the shape is ", spell(data.shape()), ", expected ", spell(shape))};
}

std::vector<std::uint32_t> read_checksums(const store::File& file, Kind kind, const std::string& name,
                                          const std::vector<std::int64_t>& shape) {
  const auto data = file.dataset(checksum_name(kind, name));
  const std::int64_t expected = Segments{shape}.count();
  FLOTILLA_REQUIRE(data.shape().size() == 1 && data.elements() == expected, ErrorKind::bad_input, file.path().string(), ": ", data.name(),
                   ": expected ", expected, " checksums, found ", data.elements());
  return data.read_all();
}

std::vector<std::uint32_t> read_all_checksums(const store::File& file, const std::vector<model::Tensor>& tensors,
                                              const ChecksumIndex& index, const StateFile& expected) {
  std::vector<std::uint32_t> checksums(index.size());
  for (auto kind : kinds)
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      open_tensor(file, kind, tensors[t].name, tensors[t].shape);
      std::ranges::copy(read_checksums(file, kind, tensors[t].name, tensors[t].shape), index.part(checksums, kind, t).begin());
    }
  FLOTILLA_REQUIRE(checksum_of_table(checksums) == expected.checksum, ErrorKind::bad_input, file.path().string(),
                   ": checksums: they are not those that the manifest was made for");
  return checksums;
}

std::uint32_t read_segment(const store::Dataset& data, const Segments& segments, std::int64_t segment, std::span<float> values) {
  const auto run = segments.run(segment);
  data.read_run(values.first(static_cast<std::size_t>(run.count)), run.first);
  return crc32c(std::as_bytes(values.first(static_cast<std::size_t>(run.count))));
}

std::string describe_mismatch(const std::string& file, const std::string& dataset, const Segments& segments, std::int64_t segment,
                              std::uint32_t found, std::uint32_t expected) {
  const std::int64_t row = segment * segments.rows_each();
  return text(file, ": ", dataset, ": segment ", segment, " (from row ", row, " on) has checksum ", hex8(found), ", expected ",
              hex8(expected));
}

}  // namespace flotilla::checkpoint
