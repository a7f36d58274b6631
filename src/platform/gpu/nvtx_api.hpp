#pragma once
#include <cstddef>
#include <cstdint>

/// What a program with NVTX and an injected profiler have in common (nvtx3/nvtxDetail/nvtxTypes.h), in declarations of our own.
namespace flotilla::gpu::nvtx {

using Function = void (*)();

/// Modules of functions, and places in the table of the first. The profiler writes its functions there.
inline constexpr int core_module = 1, domain_module = 5;
inline constexpr unsigned range_push = 9, range_pop = 11, functions_of_module = 16;

/// Tables that the profiler asks for by number.
inline constexpr std::uint32_t module_tables = 1, version_table = 3;
struct ModuleTables {
  std::size_t size;
  int (*find)(int module, Function*** table, unsigned* functions);  ///< 1: it is there
};
struct VersionTable {
  std::size_t size;
  std::uint32_t version, reserved;
  void (*tell_profilers_version)(std::uint32_t);
};
using FindTable = const void* (*)(std::uint32_t);
/// The profiler's only entry; 0: it does not want to.
using Initialize = int (*)(FindTable);
inline constexpr const char* initialize = "InitializeInjectionNvtx2";

}  // namespace flotilla::gpu::nvtx
