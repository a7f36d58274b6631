#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "flotilla/base/precision.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/model/config.hpp"
#include "flotilla/plan/shard_layout.hpp"

namespace flotilla::weights {

/// The weights in the folder of a Hugging Face model, as those of ours. They stay in their files, which are mapped into memory. Local.
class Pretrained {
 public:
  /// Reads the headers of all files. Throws Error{bad_input} where a file is damaged, or its tensors are not those of the model: file and
  /// tensor, what was expected; Error{unavailable} for a family whose names are not known.
  Pretrained(const std::filesystem::path& folder, const model::Config&);
  ~Pretrained();
  Pretrained(Pretrained&&) noexcept;

  /// Elements of tensor number `tensor` of model::tensors(), those of the boxes, to their places in `values`. Files stay out of this
  /// process's resident memory but for some 64 MiB. Throws Error{bad_input} when a file was cut meanwhile, and with tensor and count where
  /// `precision` cannot hold an element.
  void read(int tensor, const std::vector<plan::Box>& boxes, std::span<float> values, Precision precision = Precision::fp32);
  /// Where a head that is tied to the embedding is in the files, too: throws Error{bad_input} where it is another matrix.
  void require_tied() const;
  /// Tensors and files of weights in the folder that no model is read from: "model.layers.*.self_attn.rotary_emb.inv_freq (32)".
  std::vector<std::string> unused() const;
  /// Reads every element. Throws as read() and require_tied() do. Returns the names of the matrices that are all zero, in their files'
  /// order.
  std::vector<std::string> scan() const;

  /// What read() has found so far in every tensor that the model is made of, for all_zero().
  std::string seen() const;
  /// Names of the matrices of which nothing but zeros was read by any rank; `seen` of all ranks. In their files' order.
  std::vector<std::string> all_zero(const std::vector<std::string>& seen) const;

  std::size_t files() const;
  Bytes size() const;  ///< of the tensors in their files
  /// "bf16", or "bf16 and fp32".
  std::string precisions() const;
  /// Of names, types and extents of all tensors, not of their elements.
  std::string fingerprint() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace flotilla::weights
