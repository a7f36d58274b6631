#pragma once
#include "flotilla/program/program.hpp"

namespace flotilla::simulate {

inline bool is_collective(program::Op op) {
  using enum program::Op;
  return op == all_reduce || op == reduce_scatter || op == all_gather || op == reduce_scalars || op == reduce_scatter_shards ||
         op == all_gather_shards;
}
inline bool is_message(program::Op op) { return op == program::Op::send || op == program::Op::receive; }
/// Runs one instruction to its end before the next; on a send or receive queue that is up to the messages.

}  // namespace flotilla::simulate
