#include "frozen.hpp"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string_view>

#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/nearest.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/model/adapters.hpp"

namespace flotilla::model {
namespace {

constexpr std::size_t suggestions = 3;

/// * stands for any characters, dots among them, ? for one. Linear in the name for each *: only the last one is ever tried again.
bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = pattern.npos, after_star = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after_star = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != pattern.npos) {
      p = star + 1;
      n = ++after_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

/// The names, and every group of them: "block.0.*".
std::set<std::string> known_patterns(const std::vector<Tensor>& tensors) {
  std::set<std::string> known;
  for (const Tensor& tensor : tensors) {
    known.insert(tensor.name);
    for (auto dot = tensor.name.find('.'); dot != std::string::npos; dot = tensor.name.find('.', dot + 1))
      known.insert(tensor.name.substr(0, dot + 1) + "*");
  }
  return known;
}

std::string near_ones(const std::string& pattern, const std::vector<Tensor>& tensors) {
  std::vector<std::pair<std::size_t, std::string>> by_distance;
  for (const auto& known : known_patterns(tensors)) by_distance.emplace_back(edit_distance(pattern, known), known);
  const auto count = std::min(suggestions, by_distance.size());
  std::partial_sort(by_distance.begin(), by_distance.begin() + static_cast<std::ptrdiff_t>(count), by_distance.end());
  std::string words;
  for (std::size_t i = 0; i < count; ++i) words += text(i == 0 ? "" : ", ", in_quotes(by_distance[i].second));
  return words;
}

}  // namespace

void freeze(const Config& c, std::vector<Tensor>& tensors) {
  if (c.frozen.empty() && !c.lora.on()) return;
  for (Tensor& tensor : tensors)
    tensor.trained = (!c.lora.on() || is_adapter(tensor)) &&
                     std::ranges::none_of(c.frozen, [&](const std::string& pattern) { return matches(pattern, tensor.name); });
}

bool trains_products(const Config& config, const std::vector<Tensor>& tensors, Operation operation, int layer) {
  if (trains_weights(config, tensors, operation, layer)) return true;
  const auto of_operation = linears_of(operation);
  return std::ranges::any_of(tensors, [&](const Tensor& tensor) {
    return tensor.layer == layer && tensor.trained && is_adapter(tensor) &&
           std::ranges::any_of(of_operation, [&](Linear linear) { return tensor.name.find(to_string(linear)) != std::string::npos; });
  });
}

bool trains_weights(const Config& config, const std::vector<Tensor>& tensors, Operation operation, int layer) {
  if (config.frozen.empty() && !config.lora.on()) return true;
  const auto trains = [&](std::initializer_list<std::string_view> endings) {
    return std::ranges::any_of(tensors, [&](const Tensor& tensor) {
      const bool here = tensor.layer == layer || tensor.tied_layer == layer;
      return here && tensor.trained && std::ranges::any_of(endings, [&](auto ending) { return tensor.name.ends_with(ending); });
    });
  };
  switch (whole_of(operation).value_or(operation)) {
    case Operation::mlp_backward:
      return trains({"feed_forward.up.weight", "feed_forward.down.weight", "experts.router.weight", "experts.up.weight",
                     "experts.down.weight", "shared.up.weight", "shared.down.weight"});
    case Operation::attention_backward: return trains({"attention.qkv.weight", "attention.qkv.bias", "attention.out.weight"});
    case Operation::head_backward: return trains({"embedding.word", "head.word"});
    default: return true;
  }
}

std::optional<std::string> wrong_with_frozen(const Config& config) {
  if (config.frozen.empty()) return std::nullopt;
  const auto all = tensors(config);
  for (const std::string& pattern : config.frozen)
    if (std::ranges::none_of(all, [&](const Tensor& tensor) { return matches(pattern, tensor.name); }))
      return text("no tensor of ", config.name, " matches ", in_quotes(pattern), "; near it are ", near_ones(pattern, all));
  if (std::ranges::none_of(all, &Tensor::trained)) return "nothing is left to train; freeze fewer tensors";
  return std::nullopt;
}

}  // namespace flotilla::model
