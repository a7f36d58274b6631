#include "flotilla/weights/load.hpp"

#include <algorithm>

#include "flotilla/comm/agree.hpp"
#include "flotilla/weights/pretrained.hpp"

namespace flotilla::weights {

void load(const comm::World& world, const std::filesystem::path& folder, const model::Config& config, const checkpoint::LocalState& state,
          Seconds deadline) {
  const auto pretrained = comm::agree_on(
      world, "opening the weights",
      [&] {
        return Pretrained{folder, config.fully_trained()};
      },
      deadline);
  comm::require_same(world, "the weights in " + folder.string(), pretrained.fingerprint(), deadline);
  comm::agree_on(
      world, "reading the weights",
      [&] {
        for (const auto& part : state.parts) {
          std::ranges::fill(part.moment1, 0.0f);
          std::ranges::fill(part.moment2, 0.0f);
          const auto& tensor = (*state.tensors)[static_cast<std::size_t>(part.tensor)];  // adapters' are the last
          if (!model::is_adapter(tensor)) pretrained.read(part.tensor, part.boxes_in(tensor), part.parameters);
        }
      },
      deadline);
}

}  // namespace flotilla::weights
