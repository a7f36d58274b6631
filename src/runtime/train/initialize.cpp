#include "initialize.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "flotilla/base/hash.hpp"
#include "flotilla/base/philox.hpp"

namespace flotilla::train {
namespace {

/// The four normal numbers of one counter, by Box and Muller (1958).
std::array<float, 4> normals(const Philox& random, std::uint64_t counter) {
  const auto bits = random(counter);
  std::array<float, 4> out{};
  for (std::size_t pair = 0; pair < 2; ++pair) {
    const float radius = std::sqrt(-2.0f * std::log(uniform(bits[2 * pair])));
    const float angle = 2.0f * std::numbers::pi_v<float> * uniform(bits[2 * pair + 1]);
    out[2 * pair] = radius * std::cos(angle);
    out[2 * pair + 1] = radius * std::sin(angle);
  }
  return out;
}

/// The four numbers of one counter, evenly spread from -1 to 1.
std::array<float, 4> evenly_spread(const Philox& random, std::uint64_t counter) {
  const auto bits = random(counter);
  std::array<float, 4> out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = 2.0f * uniform(bits[i]) - 1.0f;
  return out;
}

float deviation(const model::Config& model, model::Init init) {
  const bool scaled = init == model::Init::normal_residual && model.scaled_residual_init;
  return static_cast<float>(scaled ? model.init_std / std::sqrt(2.0 * model.blocks) : model.init_std);
}

}  // namespace

void initialize(const model::Config& model, const model::Tensor& tensor, const plan::Shard& shard, std::uint64_t seed,
                std::span<float> values) {
  initialize(model, tensor, plan::boxes(tensor, shard), seed, values);
}

void initialize(const model::Config& model, const model::Tensor& tensor, const std::vector<plan::Box>& boxes, std::uint64_t seed,
                std::span<float> values) {
  if (tensor.init == model::Init::zeros || tensor.init == model::Init::ones) {
    std::fill(values.begin(), values.end(), tensor.init == model::Init::ones ? 1.0f : 0.0f);
    return;
  }
  const Philox random{seed, fnv1a(tensor.name)};
  const bool spread = tensor.init == model::Init::adapter;
  const float scale = spread ? 1.0f / std::sqrt(static_cast<float>(tensor.shape.back())) : deviation(model, tensor.init);
  for (const auto& box : boxes)
    for (std::int64_t row = 0; row < box.outer; ++row) {
      std::array<float, 4> four{};
      std::int64_t counter = -1;
      for (std::int64_t i = 0; i < box.inner; ++i) {
        const std::int64_t element = box.global_offset + row * box.global_stride + i;
        if (element / 4 != counter) {
          counter = element / 4;
          four = (spread ? evenly_spread : normals)(random, static_cast<std::uint64_t>(counter));
        }
        values[static_cast<std::size_t>(box.local_offset + row * box.local_stride + i)] =
            scale * four[static_cast<std::size_t>(element % 4)];
      }
    }
}

}  // namespace flotilla::train
