#include "llmc.hpp"

#include <algorithm>
#include <string>

#include "flotilla/base/error.hpp"

namespace flotilla::weights::llmc {
namespace {

constexpr std::array<std::string_view, 16> names{"embedding.word",
                                                 "embedding.position",
                                                 "norm1.weight",
                                                 "norm1.bias",
                                                 "attention.qkv.weight",
                                                 "attention.qkv.bias",
                                                 "attention.out.weight",
                                                 "attention.out.bias",
                                                 "norm2.weight",
                                                 "norm2.bias",
                                                 "feed_forward.up.weight",
                                                 "feed_forward.up.bias",
                                                 "feed_forward.down.weight",
                                                 "feed_forward.down.bias",
                                                 "head.norm.weight",
                                                 "head.norm.bias"};

/// Without the block that it belongs to.
std::string_view kind_of(std::string_view name) {
  constexpr std::string_view start = "block.";
  return name.starts_with(start) ? name.substr(name.find('.', start.size()) + 1) : name;
}

}  // namespace

std::vector<int> order(const std::vector<model::Tensor>& tensors) {
  std::vector<int> all;
  for (const auto name : names)
    for (std::size_t t = 0; t < tensors.size(); ++t)
      if (kind_of(tensors[t].name) == name) all.push_back(static_cast<int>(t));
  FLOTILLA_ASSERT(all.size() == tensors.size(), "a GPT-2 has a tensor that llm.c has no place for");
  return all;
}

}  // namespace flotilla::weights::llmc
