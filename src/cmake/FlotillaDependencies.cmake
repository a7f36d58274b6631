# Every outside library is found here or in FlotillaPlannerDependencies.cmake, once; rooms name the imported targets.
get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if(NOT "C" IN_LIST languages)
  enable_language(C)  # HDF5 is looked for with the C compiler, by projects in C++ alone, too
endif()
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI REQUIRED COMPONENTS CXX)
set(HDF5_PREFER_PARALLEL ON)
find_package(HDF5 REQUIRED COMPONENTS C)
if(NOT HDF5_IS_PARALLEL)
  message(FATAL_ERROR "HDF5 was found without MPI support; install libhdf5-openmpi-dev")
endif()
find_package(ucx CONFIG REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
find_package(Boost REQUIRED COMPONENTS program_options)
find_package(tomlplusplus REQUIRED)
find_package(dnnl CONFIG REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)

# Optional: what `flotilla tokenize` reads with. A room whose library is absent refuses and names the package.
pkg_check_modules(PCRE2 QUIET IMPORTED_TARGET libpcre2-8>=10.40)
pkg_check_modules(UTF8PROC QUIET IMPORTED_TARGET libutf8proc)
pkg_check_modules(ZLIB QUIET IMPORTED_TARGET zlib)
pkg_check_modules(ZSTD QUIET IMPORTED_TARGET libzstd)
# Its pkg-config file would link what trains models, too.
pkg_check_modules(SENTENCEPIECE QUIET sentencepiece)
if(SENTENCEPIECE_FOUND AND NOT TARGET sentencepiece)
  find_library(SENTENCEPIECE_LIBRARY sentencepiece HINTS ${SENTENCEPIECE_LIBRARY_DIRS} REQUIRED)
  add_library(sentencepiece INTERFACE IMPORTED)
  set_target_properties(sentencepiece PROPERTIES INTERFACE_LINK_LIBRARIES ${SENTENCEPIECE_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES "${SENTENCEPIECE_INCLUDE_DIRS}")
endif()
