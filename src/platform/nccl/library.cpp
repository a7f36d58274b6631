#include "library.hpp"

#include <dlfcn.h>

#include "flotilla/base/error.hpp"
#include "flotilla/nccl/library.hpp"

namespace flotilla::nccl {
namespace {

constexpr int with_nonblocking = 21400, with_split = 21800, with_group_abort = 22200, with_implicit_order = 22600, with_shrink = 22700;

std::string words(int version) { return text(version / 10000, '.', version / 100 % 100, '.', version % 100); }

/// The first function that the library lacks; empty: none.
std::string resolve_all(void* library, api::NcclFunctions& table) {
  std::string missing;
  const auto resolve = [&]<class Function>(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (!function && missing.empty()) missing = name;
  };
#define FLOTILLA_RESOLVE(name, ...) resolve(#name, table.name);
  FLOTILLA_NCCL_FUNCTIONS(FLOTILLA_RESOLVE)
#undef FLOTILLA_RESOLVE
  return missing;
}

NcclLibrary load_library() {
  NcclLibrary l;
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    l.why_none = text("libnccl.so.2 cannot be opened: ", dlerror());
    return l;
  }
  const std::string missing = resolve_all(library, l.table);
  if (l.table.ncclGetVersion && l.table.ncclGetVersion(&l.version) != api::success) l.version = 0;
  if (l.version < with_group_abort)
    l.why_none = text("libnccl.so.2 is NCCL ", words(l.version), ", which cannot abort several communicators as one: install ",
                      words(with_group_abort), " or newer");
  else if (!missing.empty())
    l.why_none = text("libnccl.so.2 is NCCL ", words(l.version), ", but lacks ", missing, ": install it anew");
  return l;
}

}  // namespace

Features features(int version) {
  return {version >= with_nonblocking, version >= with_split, version >= with_group_abort, version >= with_implicit_order,
          version >= with_shrink};
}

const NcclLibrary& open_library() {
  static const NcclLibrary library = load_library();
  return library;
}

const api::NcclFunctions& table() {
  const NcclLibrary& library = open_library();
  FLOTILLA_REQUIRE(library.why_none.empty(), ErrorKind::unavailable, "no NCCL here: ", library.why_none);
  return library.table;
}

NcclPresence presence() {
  const NcclLibrary& library = open_library();
  return {library.why_none.empty() ? library.version : 0, library.why_none};
}

std::string library_description() {
  const NcclPresence p = presence();
  return p.any() ? text("NCCL ", words(p.version)) : text("no NCCL here: ", p.why_none);
}

}  // namespace flotilla::nccl
