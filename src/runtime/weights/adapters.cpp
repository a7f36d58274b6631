#include "adapters.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "flotilla/base/error.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/model/tensors.hpp"

namespace flotilla::weights {
namespace {

int index_of(const std::vector<model::Tensor>& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &model::Tensor::name);
  FLOTILLA_ASSERT(found != tensors.end(), "no tensor ", name);
  return static_cast<int>(found - tensors.begin());
}

std::string without(std::string text, std::string_view ending) {
  FLOTILLA_ASSERT(text.ends_with(ending), text, " does not end in ", ending);
  text.resize(text.size() - ending.size());
  return text;
}

}  // namespace

std::vector<plan::Box> boxes_of_rows(const TensorSource& s, std::int64_t columns, std::int64_t first, std::int64_t last) {
  std::vector<plan::Box> boxes;
  for (std::int64_t block = 0; block < s.blocks; ++block) {
    const auto theirs = s.their_first + block * s.their_stride;
    const auto from = std::max(first, theirs), to = std::min(last, theirs + s.block_rows);
    if (from >= to) continue;
    const auto ours = s.our_first + block * s.our_stride + from - theirs;
    boxes.push_back({.inner = (to - from) * columns, .global_offset = ours * columns, .local_offset = (from - first) * columns});
  }
  return boxes;
}

std::optional<Adapter> adapter_of(const model::Config& c, const std::vector<model::Tensor>& tensors, int tensor, int number) {
  const auto& weight = tensors[static_cast<std::size_t>(tensor)];
  for (const auto linear : c.lora.targets) {
    const std::string ending = std::string{model::to_string(linear)} + ".weight";
    if (!c.lora.on() || !weight.name.starts_with("block.") || !weight.name.ends_with(ending)) continue;
    const std::string name = without(weight.name, "weight");
    return Adapter{index_of(tensors, name + "lora_A"), index_of(tensors, name + "lora_B"), c.lora.parts(linear) == 1 ? 0 : number,
                   c.lora.rank, columns_of(weight)};
  }
  return std::nullopt;
}

std::vector<float> read_a(checkpoint::StoredParameters& parameters, const Adapter& adapter) {
  const std::int64_t elements = adapter.rank * adapter.inputs;
  std::vector<float> a(static_cast<std::size_t>(elements));
  parameters.read(adapter.a, {{.inner = elements, .global_offset = adapter.part * elements}}, a);
  return a;
}

std::vector<float> read_b(checkpoint::StoredParameters& parameters, const Adapter& adapter, const TensorSource& source, std::int64_t first,
                          std::int64_t last) {
  std::vector<float> b(static_cast<std::size_t>((last - first) * adapter.rank));
  parameters.read(adapter.b, boxes_of_rows(source, adapter.rank, first, last), b);
  return b;
}

void merge(checkpoint::StoredParameters& parameters, const Adapter& adapter, const TensorSource& source, float scale, std::int64_t first,
           std::int64_t last, std::span<float> values) {
  const std::int64_t outputs = source.blocks * source.block_rows, rank = adapter.rank;
  const auto a = read_a(parameters, adapter);
  const auto b = source.transposed ? read_b(parameters, adapter, source, 0, outputs) : read_b(parameters, adapter, source, first, last);
  // A row of what is added is a sum of rows of `rows`, each times a number of `factors`: of A's by B's, or, transposed, of B^T's by A's.
  const std::int64_t width = source.transposed ? outputs : adapter.inputs;
  std::vector<float> turned;
  if (source.transposed) {
    turned.resize(b.size());
    for (std::int64_t i = 0; i < outputs; ++i)
      for (std::int64_t k = 0; k < rank; ++k) turned[static_cast<std::size_t>(k * outputs + i)] = b[static_cast<std::size_t>(i * rank + k)];
  }
  const auto& rows = source.transposed ? turned : a;
  std::vector<float> sum(static_cast<std::size_t>(width));
  for (std::int64_t row = first; row < last; ++row) {
    std::ranges::fill(sum, 0.0f);
    for (std::int64_t k = 0; k < rank; ++k) {
      const float factor =
          source.transposed ? a[static_cast<std::size_t>(k * adapter.inputs + row)] : b[static_cast<std::size_t>((row - first) * rank + k)];
      for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += factor * rows[static_cast<std::size_t>(k * width) + j];
    }
    float* to = values.data() + (row - first) * width;
    for (std::size_t j = 0; j < sum.size(); ++j) to[j] += scale * sum[j];
  }
}

std::string module_of(const TensorSource& source) { return without(source.name, ".weight"); }

std::string target_of(const TensorSource& source) {
  const std::string module = module_of(source);
  for (std::size_t dot = module.find('.'); dot != std::string::npos; dot = module.find('.', dot + 1)) {
    const auto end = module.find('.', dot + 1);
    const std::string word = module.substr(dot + 1, end - dot - 1);
    if (end != std::string::npos && !word.empty() && std::ranges::all_of(word, [](unsigned char c) { return std::isdigit(c) != 0; }))
      return module.substr(end + 1);
  }
  return module;
}

std::string adapter_config(const model::Lora& lora, const std::vector<std::string>& targets, bool transposed, const std::string& base) {
  files::JsonLine config;
  config.add("peft_type", "LORA").add("task_type", "CAUSAL_LM").add("r", lora.rank);
  if (std::floor(lora.alpha) == lora.alpha && lora.alpha < 1e9)
    config.add("lora_alpha", static_cast<std::int64_t>(lora.alpha));
  else
    config.add("lora_alpha", lora.alpha);
  config.add("lora_dropout", 0.0).add("bias", "none").add("fan_in_fan_out", transposed).add("inference_mode", true);
  config.add_json("target_modules", files::json_array(targets));
  if (base.empty())
    config.add_null("base_model_name_or_path");
  else
    config.add("base_model_name_or_path", base);
  return config.text() + "\n";
}

}  // namespace flotilla::weights
