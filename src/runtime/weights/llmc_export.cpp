#include <array>
#include <cmath>

#include "flotilla/base/error.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/safetensors/writer.hpp"
#include "flotilla/weights/llmc.hpp"
#include "llmc.hpp"
#include "rounded_norms.hpp"
#include "stored_model.hpp"
#include "unfinished.hpp"

namespace flotilla::weights {
namespace {

namespace fs = std::filesystem;

/// llm.c has one kind of GPT-2: with tanh's GELU, four times as many columns in between, and an epsilon of 1e-5.
void require_llmc_has(const model::Config& c, const fs::path& step) {
  const bool same = c.family == "gpt2" && c.tied_head && c.activation == model::Activation::gelu_tanh && c.feed_forward == 4 * c.hidden &&
                    c.norm_epsilon == 1e-5;
  FLOTILLA_REQUIRE(same, ErrorKind::bad_input, step.string(),
                   ": llm.c has no such model; expected a GPT-2 with a tied head, gelu_new, n_inner of 4 n_embd (", 4 * c.hidden,
                   ") and an epsilon of 1e-5; export it by flotilla export hf");
}

std::array<std::int32_t, llmc::numbers> header_of(const model::Config& c, Precision precision, int padded) {
  std::array<std::int32_t, llmc::numbers> header{};
  header[llmc::magic_field] = llmc::magic;
  header[llmc::version_field] = precision == Precision::fp32 ? llmc::fp32_version : llmc::bf16_version;
  header[llmc::positions] = c.positions;
  header[llmc::vocabulary] = c.vocabulary;
  header[llmc::blocks] = c.blocks;
  header[llmc::heads] = c.heads;
  header[llmc::hidden] = c.hidden;
  header[llmc::padded_vocabulary] = padded;
  return header;
}

}  // namespace

ExportReport export_llmc(const fs::path& step, const fs::path& path, Precision precision) {
  FLOTILLA_REQUIRE(precision != Precision::fp16, ErrorKind::bad_input, path.string(),
                   ": llm.c has no model files in fp16; write fp32 or bf16");
  const Unfinished unfinished{path};
  StoredModel model{step};
  const auto config = model.config().fully_trained();
  require_llmc_has(config, step);
  const int padded = (config.vocabulary + llmc::vocabulary_multiple - 1) / llmc::vocabulary_multiple * llmc::vocabulary_multiple;
  const auto header = header_of(config, precision, padded);
  const auto padding = std::int64_t{padded - config.vocabulary} * config.hidden;
  const auto tensors = model::tensors(config);
  ExportReport report{1, static_cast<int>(tensors.size()), {}};
  std::int64_t elements = padding;
  for (const auto& tensor : tensors) elements += tensor.elements();
  report.size = Bytes{elements * element_size(precision).count};
  if (path.has_parent_path()) files::make_folders(path.parent_path());
  safetensors::Writer writer{unfinished.path(), std::as_bytes(std::span{header}), elements, precision};
  auto targets = targets_of(config);
  for (const int number : llmc::order(tensors)) {
    Target& target = targets[static_cast<std::size_t>(number)];  // a GPT-2 has one for each tensor of ours
    target.source.transposed = false;
    target.source.shape = tensors[static_cast<std::size_t>(number)].shape;
    model.read(target, [&](std::span<const float> rows) {
      writer.write(rows);
      count_rounded_back(target.source, rows, precision, report);
    });
    if (tensors[static_cast<std::size_t>(number)].axis == model::Axis::vocabulary)
      writer.write(std::vector<float>(static_cast<std::size_t>(padding)));
  }
  writer.close();
  unfinished.finish();
  return report;
}

}  // namespace flotilla::weights
