#include "flotilla/weights/load.hpp"

#include <algorithm>

#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "flotilla/weights/pretrained.hpp"

namespace flotilla::weights {

std::string unused_in_words(const std::filesystem::path& folder, const std::vector<std::string>& unused) {
  std::string words;
  for (const auto& name : unused) words += (words.empty() ? "" : ", ") + printable(name);
  return text(folder.string(), ": not used: ", words);
}

std::string zero_in_words(const std::vector<std::string>& zero) {
  return text(zero.size(), zero.size() == 1 ? " matrix is" : " matrices are", " all zero, as new blocks and adapters begin, ",
              in_quotes(zero.front()), zero.size() == 1 ? "" : " the first");
}

void load(const comm::World& world, const std::filesystem::path& folder, const model::Config& config, const checkpoint::LocalState& state,
          Seconds deadline) {
  auto pretrained = comm::agree_on(
      world, "opening the weights",
      [&] {
        Pretrained opened{folder, config.fully_trained()};
        if (world.rank() == Rank{0}) {
          opened.require_tied();
          if (const auto unused = opened.unused(); !unused.empty()) log::info(unused_in_words(folder, unused));
        }
        return opened;
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
          if (!model::is_adapter(tensor)) pretrained.read(part.tensor, part.boxes_in(tensor), part.parameters, part.precision);
        }
      },
      deadline);
  const auto zero = pretrained.all_zero(mpi::all_gather_strings(world.control(), pretrained.seen(), deadline));
  if (world.rank() == Rank{0} && !zero.empty()) log::info(zero_in_words(zero));
}

}  // namespace flotilla::weights
