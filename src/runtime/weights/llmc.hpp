#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "flotilla/base/precision.hpp"
#include "flotilla/model/tensors.hpp"

/// Private: how llm.c lays out a file.
namespace flotilla::weights::llmc {

inline constexpr std::int32_t magic = 20240326, fp32_version = 3, bf16_version = 5;
/// Of words, as llm.c's train_gpt2.py writes files.
inline constexpr int vocabulary_multiple = 128;

/// What a header's 256 numbers hold, in their order.
enum Field { magic_field, version_field, positions, vocabulary, blocks, heads, hidden, padded_vocabulary, fields };
inline constexpr int numbers = 256, header_bytes = numbers * 4;

/// Numbers of model::tensors() of a GPT-2 in the order of the file: tensors of the same name in a block stand together, block by block.
/// Our layout of each is llm.c's.
std::vector<int> order(const std::vector<model::Tensor>&);

}  // namespace flotilla::weights::llmc
