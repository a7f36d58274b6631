#pragma once
#include "flotilla/program/program.hpp"

namespace flotilla::simulate {

inline bool is_collective(program::Op op) {
  return op == program::Op::all_reduce || op == program::Op::reduce_scatter || op == program::Op::all_gather ||
         op == program::Op::reduce_scalars;
}
inline bool is_message(program::Op op) { return op == program::Op::send || op == program::Op::receive; }
/// Runs one instruction to its end before the next; on a send or receive queue that is up to the messages.

}  // namespace flotilla::simulate
