#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

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
  /// process's resident memory but for some 64 MiB. Throws Error{bad_input} when a file was cut meanwhile.
  void read(int tensor, const std::vector<plan::Box>& boxes, std::span<float> values) const;

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
