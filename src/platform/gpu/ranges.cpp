#include "flotilla/gpu/ranges.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdlib>

#include "flotilla/base/log.hpp"
#include "nvtx_api.hpp"

namespace flotilla::gpu {
namespace {

/// Functions of a module, and a pointer to each, through which the profiler writes.
struct Module {
  std::array<nvtx::Function, nvtx::functions_of_module> functions{};
  std::array<nvtx::Function*, nvtx::functions_of_module + 1> places{};
  Module() {
    for (std::size_t f = 0; f < functions.size(); ++f) places[f] = &functions[f];
  }
};

Module& core() {
  static Module module;
  return module;
}
/// Not called from here; profilers expect it beside the first.
Module& domains() {
  static Module module;
  return module;
}

int find_module(int number, nvtx::Function*** table, unsigned* functions) {
  if (number != nvtx::core_module && number != nvtx::domain_module) return 0;
  auto& module = number == nvtx::core_module ? core() : domains();
  if (table != nullptr) *table = module.places.data();
  if (functions != nullptr) *functions = nvtx::functions_of_module;
  return 1;
}

const void* find_table(std::uint32_t number) {
  static const nvtx::ModuleTables modules{sizeof modules, find_module};
  static const nvtx::VersionTable version{sizeof version, 3, 0, [](std::uint32_t) {}};
  if (number == nvtx::module_tables) return &modules;
  return number == nvtx::version_table ? &version : nullptr;
}

/// The library that a profiler names in the environment of what it starts. It stays open.
bool inject() {
  const char* path = std::getenv("NVTX_INJECTION64_PATH");
  if (path == nullptr || *path == '\0') return false;
  void* library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  const auto initialize = library == nullptr ? nullptr : reinterpret_cast<nvtx::Initialize>(dlsym(library, nvtx::initialize));
  if (initialize == nullptr) {
    log::warning("no names for the profiler of NVTX_INJECTION64_PATH: ", dlerror());
    return false;
  }
  return initialize(find_table) != 0 && core().functions[nvtx::range_push] != nullptr && core().functions[nvtx::range_pop] != nullptr;
}

}  // namespace

bool profiled() noexcept {
  static const bool injected = inject();
  return injected;
}

void NamedRange::push(const char* name) noexcept { reinterpret_cast<int (*)(const char*)>(core().functions[nvtx::range_push])(name); }
void NamedRange::pop() noexcept { reinterpret_cast<int (*)()>(core().functions[nvtx::range_pop])(); }

}  // namespace flotilla::gpu
