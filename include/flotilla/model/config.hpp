#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flotilla::model {

enum class Activation { gelu_tanh, relu };
enum class NormPlacement { pre, post };  ///< norm before the sub-layer (GPT-2, most OPT) or after the sum (OPT-350M)

/// A transformer as data. A family is a way to fill this in; nothing else branches on the family's name.
///
/// Layers, numbered 0 … blocks+1: embedding, the blocks, head. Plans cut between layers.
struct Config {
  std::string name;    ///< "gpt2", "opt-350m", or the stem of a config.json
  std::string family;  ///< "gpt2" or "opt", as Hugging Face's model_type; for messages and export
  int blocks = 0;
  int hidden = 0;
  int heads = 0;
  int feed_forward = 0;
  int vocabulary = 0;
  int positions = 0;        ///< longest sequence
  int position_offset = 0;  ///< rows before position 0 in the position table (OPT: 2)
  int embedding_width = 0;  ///< width of the word table; other than `hidden`: projected in and out (OPT-350M: 512)
  Activation activation = Activation::gelu_tanh;
  NormPlacement norm = NormPlacement::pre;
  bool final_norm = true;  ///< a norm before the head (none in OPT-350M)
  double norm_epsilon = 1e-5;
  double dropout = 0;            ///< after embedding and after each sub-layer
  double attention_dropout = 0;  ///< on attention probabilities
  double init_std = 0.02;
  bool scaled_residual_init = false;  ///< GPT-2: the two output matrices of a block use init_std / sqrt(2 * blocks)

  bool operator==(const Config&) const = default;

  int layers() const { return blocks + 2; }
  int head_size() const { return hidden / heads; }
  bool projects() const { return embedding_width != hidden; }
  bool is_embedding(int layer) const { return layer == 0; }
  bool is_head(int layer) const { return layer == blocks + 1; }
  bool is_block(int layer) const { return layer > 0 && layer <= blocks; }
};

/// Built-in models by name, Hugging Face's where they exist: gpt2, gpt2-medium, gpt2-large, gpt2-xl, opt-125m, opt-350m, opt-1.3b,
/// opt-2.7b, opt-6.7b, opt-13b, opt-30b, opt-66b; and small byte-level ones (vocabulary 256): gpt2-tiny, gpt2-mini, opt-tiny,
/// opt-post-tiny (post-norm and projected embedding, like OPT-350M). Names compare case-insensitively.
/// Throws Error{bad_input} naming the nearest known name.
Config built_in(std::string_view name);
std::vector<std::string> built_in_names();

/// What the times of a model's operations depend on, but for sequences, precision and tensor degree: its shape, dropout and the sequence
/// length, in words.
std::string fingerprint(const Config&, int length);
/// The part of a fingerprint that says the shape.
std::string_view shape_of(std::string_view fingerprint);

/// Throws Error{bad_input} saying which field is impossible and what it must be. `where` leads the message (a file, or an option).
void check(const Config&, std::string_view where);

}  // namespace flotilla::model
