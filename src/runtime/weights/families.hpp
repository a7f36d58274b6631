#pragma once
#include <span>
#include <string_view>

/// What the tensors of model families are called by Hugging Face, and how they are laid out: data.
namespace flotilla::weights {

/// How elements of one of theirs stand in one of ours.
enum class TensorPart {
  whole,
  transposed,  ///< a matrix (input, output), as GPT-2's Conv1D has it; a vector is whole
  queries,     ///< of our qkv
  keys,
  values,
  first_half,  ///< of our rows: the gate of SwiGLU and GeGLU
  second_half,
};

/// Tensors of ours whose names begin with `ours`, and theirs, which end alike (".weight", ".bias"). '*' stands for a block's number.
struct NameRow {
  std::string_view ours, theirs;
  TensorPart part = TensorPart::whole;
};

struct Family {
  std::string_view name;    ///< model_type
  std::string_view prefix;  ///< that files of the model without its head leave out: "transformer."
  std::span<const NameRow> rows;
};
/// Throws Error{unavailable} for a family whose names are not known.
const Family& family_named(std::string_view);
/// Null for one whose names are not known.
const Family* find_family(std::string_view);

/// Whether a file may hold this tensor beside the weights: masks and angles that are computed.
bool is_computed(std::string_view theirs);
/// Whether it is a model's head, which a file may hold a second time where it is tied to the embedding.
bool is_head(std::string_view theirs);

}  // namespace flotilla::weights
