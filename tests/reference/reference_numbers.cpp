#include "reference/reference_numbers.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "flotilla/base/hash.hpp"
#include "flotilla/base/philox.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/files/hugging_face.hpp"
#include "flotilla/weights/adapter_parts.hpp"

namespace flotilla::tests {
namespace {

static_assert(std::endian::native == std::endian::little, "the files hold little-endian floats");

const std::filesystem::path folder = FLOTILLA_REFERENCE_NUMBERS;

std::uint64_t bits(std::string_view name, std::uint64_t index) { return Philox::mix(fnv1a(name) + index) >> 48; }

/// The index (what is where, and the scalars) beside the values.
class Reader {
 public:
  explicit Reader(const std::string& name)
      : path_{folder / (name + ".txt")}, index_{path_}, values_{folder / (name + ".f32"), std::ios::binary} {}

  /// The scalars stand before the tensors.
  std::vector<ReferenceStep> steps() {
    std::vector<ReferenceStep> found;
    std::string token_embedding, loss, norm, rate;
    while ((index_ >> std::ws).peek() == 's') {
      ReferenceStep step;
      std::size_t number = 0;
      index_ >> token_embedding >> number >> loss >> step.loss >> norm >> step.gradient_norm >> rate >> step.learning_rate;
      if (!index_ || number != found.size()) throw std::runtime_error{text(path_.string(), ": expected step ", found.size())};
      found.push_back(step);
    }
    return found;
  }

  std::vector<double> tensor(const std::string& name, const std::vector<std::int64_t>& shape) {
    std::string want = name, got;
    std::int64_t count = 1;
    for (auto extent : shape) {
      want += text(" ", extent);
      count *= extent;
    }
    std::getline(index_ >> std::ws, got);
    if (got != want) throw std::runtime_error{text(path_.string(), ": expected '", want, "', got '", got, "'")};
    std::vector<float> read(static_cast<std::size_t>(count));
    if (!values_.read(reinterpret_cast<char*>(read.data()), count * 4))
      throw std::runtime_error{text(path_.string(), ": no values for ", name)};
    return {read.begin(), read.end()};
  }

  void expect_end() {
    if ((index_ >> std::ws).peek() != EOF || values_.peek() != EOF)
      throw std::runtime_error{text(path_.string(), ": more than the model's tensors")};
  }

 private:
  std::filesystem::path path_;
  std::ifstream index_, values_;
};

double norm(const std::vector<double>& values) {
  double squares = 0;
  for (double v : values) squares += v * v;
  return std::sqrt(squares);
}

}  // namespace

std::filesystem::path reference_file(const std::string& name) { return folder / name; }

ReferenceNumbers reference_numbers(const std::string& name) {
  ReferenceNumbers numbers;
  numbers.model = files::read_hugging_face_config(folder / (name + ".config.json"));
  Reader reader{name};
  numbers.steps = reader.steps();
  numbers.logits = reader.tensor("logits", {numbers.sequences, numbers.length, numbers.model.vocabulary});
  for (const auto& t : model::tensors(numbers.model)) numbers.gradients[t.name] = reader.tensor("gradient/" + t.name, t.shape);
  for (const auto& t : model::tensors(numbers.model)) numbers.updated[t.name] = reader.tensor("updated/" + t.name, t.shape);
  reader.expect_end();
  return numbers;
}

ReferenceNumbers document_numbers(const std::string& name) {
  ReferenceNumbers numbers;
  numbers.model = files::read_hugging_face_config(folder / (name + ".config.json"));
  Reader reader{name + ".documents"};
  numbers.steps = reader.steps();
  if (numbers.steps.size() != 1) throw std::runtime_error{name + ".documents.txt: expected one step"};
  numbers.logits = reader.tensor("logits", {numbers.sequences, numbers.length, numbers.model.vocabulary});
  for (const auto& t : model::tensors(numbers.model)) numbers.gradients[t.name] = reader.tensor("gradient/" + t.name, t.shape);
  reader.expect_end();
  return numbers;
}

std::vector<std::int32_t> document_starts() {
  const std::vector<std::int32_t> begins[ReferenceNumbers::sequences] = {{0, 4, 7}, {0}, {0, 1, 9}, {0, 5}};  // documents_numbers.py
  std::vector<std::int32_t> starts;
  for (const auto& of : begins)
    for (int i = 0; i < ReferenceNumbers::length; ++i) starts.push_back(*std::prev(std::ranges::upper_bound(of, i)));
  return starts;
}

AdapterNumbers adapter_numbers(const std::string& name) {
  AdapterNumbers numbers;
  numbers.model = files::read_hugging_face_config(folder / (name + ".config.json"));
  const auto parts = weights::adapter_parts(numbers.model.family);
  numbers.model.lora = {3, 4.5, {model::linears.begin(), model::linears.end()}, parts.qkv, parts.up};
  Reader reader{name + ".lora"};
  const auto steps = reader.steps();
  if (steps.size() != 1) throw std::runtime_error{name + ".lora.txt: expected one step"};
  numbers.step = steps.front();
  const auto tensors = model::tensors(numbers.model);
  for (const auto& t : tensors)
    if (model::is_adapter(t)) numbers.gradients[t.name] = reader.tensor("gradient/" + t.name, t.shape);
  for (const auto& t : tensors)
    if (const auto layer = t.name.substr(0, t.name.rfind('.'));
        numbers.gradients.contains(layer + ".lora_A") && t.name == layer + ".weight")
      numbers.merged[t.name] = reader.tensor("merged/" + t.name, t.shape);
  reader.expect_end();
  return numbers;
}

std::vector<double> reference_weights(const model::Tensor& tensor) {
  std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double odd = 2 * static_cast<double>(bits(tensor.name, i)) + 1 - 0x1p16;
    values[i] = odd * 0x1p-18 + (tensor.init == model::Init::ones ? 1 : 0);
  }
  return values;
}

std::vector<std::uint16_t> reference_tokens(const model::Config& model) {
  std::vector<std::uint16_t> tokens(ReferenceNumbers::sequences * ReferenceNumbers::length + 1);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::uint16_t>(bits("tokens", i) % static_cast<std::uint64_t>(model.vocabulary));
  return tokens;
}

std::vector<double> gradient_scales(const ReferenceNumbers& numbers) {
  const auto tensors = model::tensors(numbers.model);
  std::vector<double> norms, largest(static_cast<std::size_t>(numbers.model.layers()));
  for (const auto& t : tensors) {
    norms.push_back(norm(numbers.gradients.at(t.name)));
    auto& most = largest[static_cast<std::size_t>(t.layer)];
    most = std::max(most, norms.back());
  }
  for (std::size_t t = 0; t < tensors.size(); ++t)
    norms[t] = std::max(norms[t], 1e-3 * largest[static_cast<std::size_t>(tensors[t].layer)]);
  return norms;
}

}  // namespace flotilla::tests
