#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"
#include "flotilla/checkpoint/state.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/model/config.hpp"

namespace flotilla::weights {

/// "DIR: not used: lm_head.weight, model.safetensors.index.json", of Pretrained::unused().
std::string unused_in_words(const std::filesystem::path& folder, const std::vector<std::string>& unused);

/// "2 matrices are all zero, as new blocks and adapters begin, 'A' the first", of Pretrained::scan() or all_zero(); legal, and a line.
std::string zero_in_words(const std::vector<std::string>& zero);

/// Fills the parameters of `state`, which is of this model, from the folder of a Hugging Face model, and clears the moments. Adapters,
/// which are not there, stay as they are. Every rank reads what it holds and no more. Collective over the world; every rank sees the same
/// folder. All ranks return, or all throw the same comm::AgreedError{bad_input} as Pretrained does; `state` is then undefined.
void load(const comm::World&, const std::filesystem::path& folder, const model::Config&, const checkpoint::LocalState&, Seconds deadline);

}  // namespace flotilla::weights
