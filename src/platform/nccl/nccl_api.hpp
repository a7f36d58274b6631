#pragma once
#include <cstddef>

#include "flotilla/nccl/communicator.hpp"

/// What is used of NCCL (libnccl.so.2), as documented and in our own declarations: no header of NCCL is needed to build, and no library of
/// it to start. tests/nccl/declarations_test.cpp holds them to nccl.h where there is one.
namespace flotilla::nccl::api {

using Result = int;
using Comm = struct CommObject*;

inline constexpr Result success = 0, unhandled_cuda_error = 1, system_error = 2, internal_error = 3, invalid_argument = 4,
                        invalid_usage = 5, remote_error = 6, in_progress = 7;
inline constexpr int uint8 = 1, float16 = 6, float32 = 7, float64 = 8, bfloat16 = 9;  // ncclDataType_t
inline constexpr int sum = 0;                                                         // ncclRedOp_t

/// ncclConfig_t as of 2.14. Later versions take fields beyond `size` as undefined.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

/// The table: FLOTILLA_NCCL_FUNCTIONS(name as exported, result, parameter types...).
#define FLOTILLA_NCCL_FUNCTIONS(F)                                                 \
  F(ncclGetVersion, Result, int*)                                                  \
  F(ncclGetUniqueId, Result, UniqueId*)                                            \
  F(ncclGetErrorString, const char*, Result)                                       \
  F(ncclGetLastError, const char*, Comm)                                           \
  F(ncclCommInitRankConfig, Result, Comm*, int, UniqueId, int, NcclConfig*)        \
  F(ncclCommGetAsyncError, Result, Comm, Result*)                                  \
  F(ncclCommFinalize, Result, Comm)                                                \
  F(ncclCommDestroy, Result, Comm)                                                 \
  F(ncclCommAbort, Result, Comm)                                                   \
  F(ncclGroupStart, Result)                                                        \
  F(ncclGroupEnd, Result)                                                          \
  F(ncclSend, Result, const void*, std::size_t, int, int, Comm, void*)             \
  F(ncclRecv, Result, void*, std::size_t, int, int, Comm, void*)                   \
  F(ncclAllGather, Result, const void*, void*, std::size_t, int, Comm, void*)      \
  F(ncclAllReduce, Result, const void*, void*, std::size_t, int, int, Comm, void*) \
  F(ncclReduceScatter, Result, const void*, void*, std::size_t, int, int, Comm, void*)

struct NcclFunctions {
#define FLOTILLA_NCCL_MEMBER(name, result, ...) result (*name)(__VA_ARGS__) = nullptr;
  FLOTILLA_NCCL_FUNCTIONS(FLOTILLA_NCCL_MEMBER)
#undef FLOTILLA_NCCL_MEMBER
};

}  // namespace flotilla::nccl::api
