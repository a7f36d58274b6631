#include <algorithm>
#include <cstring>
#include <limits>

#include "flotilla/base/error.hpp"
#include "flotilla/base/magnitudes.hpp"
#include "flotilla/files/hugging_face.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/safetensors/folder.hpp"
#include "flotilla/safetensors/writer.hpp"
#include "flotilla/store/mapped_file.hpp"
#include "flotilla/weights/llmc.hpp"
#include "llmc.hpp"
#include "stored_model.hpp"
#include "unfinished.hpp"

namespace flotilla::weights {
namespace {

namespace fs = std::filesystem;

struct Header {
  LlmcModel model;
  std::int64_t padded_vocabulary = 0;
};

/// A number of the header that must lie in a range.
int field(const store::MappedFile& file, llmc::Field which, const char* name, std::int64_t least, std::int64_t most) {
  std::int32_t value = 0;
  std::memcpy(&value, file.bytes().data() + 4 * which, sizeof value);
  FLOTILLA_REQUIRE(value >= least && value <= most, ErrorKind::bad_input, file.path().string(), ": byte ", 4 * which,
                   " of the header: ", name, " is ", value, "; expected ", least == most ? text(least) : text(least, " to ", most));
  return value;
}

Precision precision_in(const store::MappedFile& file) {
  std::int32_t magic = 0, version = 0;
  if (file.bytes().size() >= llmc::header_bytes) {
    std::memcpy(&magic, file.bytes().data(), sizeof magic);
    std::memcpy(&version, file.bytes().data() + 4, sizeof version);
  }
  FLOTILLA_REQUIRE(magic == llmc::magic, ErrorKind::bad_input, file.path().string(),
                   ": is no model file of llm.c; expected 1024 bytes of header that begin with the number ", llmc::magic);
  FLOTILLA_REQUIRE(version == llmc::fp32_version || version == llmc::bf16_version, ErrorKind::bad_input, file.path().string(),
                   ": byte 4 of the header: the version is ", version, "; expected ", llmc::fp32_version, " (fp32) or ", llmc::bf16_version,
                   " (bf16)", version == 1 ? ", which today's train_gpt2.py of llm.c writes" : "");
  return version == llmc::fp32_version ? Precision::fp32 : Precision::bf16;
}

Header header_of(const store::MappedFile& file) {
  constexpr int most = 1 << 24, most_blocks = 1 << 12, most_channels = 1 << 20;  // so that no size leaves 64 bits
  Header h;
  h.model.precision = precision_in(file);
  model::Config& c = h.model.config = model::built_in("gpt2");
  c.name = file.path().stem().string();
  c.positions = field(file, llmc::positions, "the longest sequence", 1, most);
  c.vocabulary = field(file, llmc::vocabulary, "the vocabulary", 1, most);
  c.blocks = field(file, llmc::blocks, "the number of layers", 1, most_blocks);
  c.heads = field(file, llmc::heads, "the number of heads", 1, most);
  c.hidden = c.embedding_width = field(file, llmc::hidden, "the number of channels", 1, most_channels);
  c.feed_forward = 4 * c.hidden;
  c.dropout = c.attention_dropout = 0;
  h.padded_vocabulary = field(file, llmc::padded_vocabulary, "the padded vocabulary", c.vocabulary, most);
  model::check(c, file.path().string() + ": header");
  return h;
}

/// The file as tensors under our names.
safetensors::SafetensorsFile tensors_in(store::MappedFile file, const Header& h, const std::vector<model::Tensor>& tensors) {
  const auto element = element_size(h.model.precision).count;
  std::vector<safetensors::Entry> entries;
  std::int64_t at = llmc::header_bytes;
  for (const int number : llmc::order(tensors)) {
    const auto& tensor = tensors[static_cast<std::size_t>(number)];
    entries.push_back({tensor.name, to_string(h.model.precision), h.model.precision, tensor.shape, at, tensor.elements() * element});
    at += entries.back().bytes;
    if (tensor.axis == model::Axis::vocabulary) at += (h.padded_vocabulary - h.model.config.vocabulary) * h.model.config.hidden * element;
  }
  FLOTILLA_REQUIRE(std::ssize(file.bytes()) == at, ErrorKind::bad_input, file.path().string(), ": holds ", std::ssize(file.bytes()),
                   " bytes; the model of its header has ", at);
  return safetensors::SafetensorsFile::of(std::move(file), std::move(entries));
}

/// All of one of theirs, from our layout.
std::vector<float> read_as(const TensorSource& source, const safetensors::SafetensorsFile& file, const safetensors::Entry& entry) {
  std::vector<float> ours(static_cast<std::size_t>(entry.elements()));
  file.read(entry, 0, 1, ours);
  ValueCheck check;
  check.add(ours);
  FLOTILLA_REQUIRE(check.passed(), ErrorKind::bad_input, file.path().string(), ": tensor ", entry.name, ": ", check.in_words(),
                   "; the file is damaged or its training diverged: take another copy");
  if (!source.transposed) return ours;
  const auto rows = static_cast<std::size_t>(source.shape[0]), columns = static_cast<std::size_t>(source.shape[1]);
  std::vector<float> turned(ours.size());
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column) turned[row * columns + column] = ours[column * rows + row];
  return turned;
}

}  // namespace

LlmcModel read_llmc_header(const fs::path& path) { return header_of(store::MappedFile::open(path, "a model file of llm.c")).model; }

ExportReport import_llmc(const fs::path& path, const fs::path& folder) {
  auto mapping = store::MappedFile::open(path, "a model file of llm.c");
  const Header header = header_of(mapping);
  const auto& [config, precision] = header.model;
  const auto tensors = model::tensors(config);
  const auto file = tensors_in(std::move(mapping), header, tensors);
  const auto targets = targets_of(config);
  std::vector<safetensors::Declared> declared;
  for (const auto& target : targets) declared.push_back({target.source.name, target.source.shape});
  const Unfinished unfinished{folder};
  files::make_own_folder(unfinished.path());
  safetensors::Writer writer{unfinished.path() / safetensors::single_file_name, declared, precision};
  ExportReport report{1, static_cast<int>(targets.size()), {}};
  for (const auto& target : targets) {
    const auto& name = tensors[static_cast<std::size_t>(target.tensor)].name;
    const auto& entry = *std::ranges::find(file.entries(), name, &safetensors::Entry::name);
    file.require_whole();
    writer.write(read_as(target.source, file, entry));
    file.forget();
    report.size.count += entry.bytes;
  }
  writer.close();
  files::write_text(unfinished.path() / "config.json", files::hugging_face_config_to_json(config, precision, {}));
  files::write_text(unfinished.path() / "generation_config.json", "{\n  \"_from_model_config\": true\n}\n");
  unfinished.finish();
  return report;
}

}  // namespace flotilla::weights
