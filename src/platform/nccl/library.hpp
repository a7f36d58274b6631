#pragma once
#include <string>

#include "nccl_api.hpp"

namespace flotilla::nccl {

/// libnccl, opened once for the life of the process.
struct NcclLibrary {
  api::NcclFunctions table;
  int version = 0;
  std::string why_none;  ///< empty when the table is whole and the version will do
};
const NcclLibrary& open_library();

/// The table; throws Error{unavailable} where there is no NCCL.
const api::NcclFunctions& table();

}  // namespace flotilla::nccl
