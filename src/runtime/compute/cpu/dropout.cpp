#include "dropout.hpp"

#include "flotilla/base/philox.hpp"

namespace flotilla::compute::cpu {
namespace {

constexpr std::uint64_t purpose_of_dropout = 0x64726f706f757421u;

std::uint64_t purpose(const Task& task, DropSite site) {
  std::uint64_t p = Philox::mix(purpose_of_dropout ^ static_cast<std::uint64_t>(task.step));
  p = Philox::mix(p ^ static_cast<std::uint64_t>(task.layer));
  return Philox::mix(p ^ static_cast<std::uint64_t>(site));
}

}  // namespace

Dropout dropout(const Setup& setup, const Task& task, DropSite site) {
  const double p = site == DropSite::attention_probabilities ? setup.model.attention_dropout : setup.model.dropout;
  if (!task.training || p <= 0) return {};
  const Philox key{setup.seed, purpose(task, site)};
  return {key.key0, key.key1, static_cast<std::uint32_t>(p * 0x1p32), static_cast<float>(1 / (1 - p)), true};
}

}  // namespace flotilla::compute::cpu
