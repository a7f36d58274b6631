#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "flotilla/checkpoint/stored_parameters.hpp"
#include "flotilla/model/config.hpp"
#include "flotilla/plan/shard_layout.hpp"
#include "sources.hpp"

/// Private: the adapters of a checkpoint, by Hugging Face's matrices.
namespace flotilla::weights {

/// Where rows [first, last) of theirs are in ours, packed from 0 on.
std::vector<plan::Box> boxes_of_rows(const TensorSource&, std::int64_t columns, std::int64_t first, std::int64_t last);

/// The adapter of one of their matrices: which of model::tensors() hold its halves, and which of A's parts is its own.
struct Adapter {
  int a = -1, b = -1, part = 0;
  std::int64_t rank = 0, inputs = 0;
};
/// Of the matrix that is source number `number` of our tensor; nothing where the tensor is no target.
std::optional<Adapter> adapter_of(const model::Config&, const std::vector<model::Tensor>&, int tensor, int number);

/// A (rank, inputs).
std::vector<float> read_a(checkpoint::StoredParameters&, const Adapter&);
/// Rows of B (their outputs, rank); a transposed source's as well.
std::vector<float> read_b(checkpoint::StoredParameters&, const Adapter&, const TensorSource&, std::int64_t first, std::int64_t last);

/// values += scale B A: rows [first, last) of their matrix, or of its transpose.
void merge(checkpoint::StoredParameters&, const Adapter&, const TensorSource&, float scale, std::int64_t first, std::int64_t last,
           std::span<float> values);

/// The name of PEFT's module for one of their matrices, "model.layers.0.self_attn.q_proj", and what of it PEFT's target_modules says:
/// what follows the block's number.
std::string module_of(const TensorSource&);
std::string target_of(const TensorSource&);
/// The text of adapter_config.json. `base`: the model it belongs to; may be empty.
std::string adapter_config(const model::Lora&, const std::vector<std::string>& targets, bool transposed, const std::string& base);

}  // namespace flotilla::weights
