#pragma once
#include <cstddef>
#include <cstdint>

namespace flotilla::schedule {

/// Stages, replicas and microbatches are signed, containers' indices are not.
constexpr std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace flotilla::schedule
