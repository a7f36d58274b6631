# CUDA kernels as machine code in the program, where nvcc is. Nothing else of the toolkit is needed, and nothing of it is linked.
#
#   FLOTILLA_CUDA                AUTO: with nvcc where it is found; ON: an error where it is not; OFF: without
#   FLOTILLA_CUDA_ARCHITECTURES  compute capabilities; code for one runs on later ones of the same generation (80 on 86 and 89)
#   CUDAToolkit_ROOT             where the toolkit is, if neither PATH nor /usr/local/cuda shows it
set(FLOTILLA_CUDA AUTO CACHE STRING "CUDA kernels in the program: AUTO, ON or OFF")
set_property(CACHE FLOTILLA_CUDA PROPERTY STRINGS AUTO ON OFF)
set(FLOTILLA_CUDA_ARCHITECTURES "70;75;80;90;100;120" CACHE STRING "Compute capabilities; those that nvcc does not know are left out")
set(FLOTILLA_OLDEST_CUDA 12.0)

# Sets FLOTILLA_CUDA_VERSION ("13.0"; empty: no kernels) and FLOTILLA_CUDA_CODES (those architectures that nvcc compiles for).
function(flotilla_find_nvcc)
  set(version "")
  set(codes "")
  if(FLOTILLA_CUDA)  # AUTO is true: any name but OFF
    find_program(FLOTILLA_NVCC nvcc HINTS ${CUDAToolkit_ROOT} ENV CUDAToolkit_ROOT ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
    mark_as_advanced(FLOTILLA_NVCC)
    set(why "nvcc was not found (CUDAToolkit_ROOT)")
    if(FLOTILLA_NVCC)
      execute_process(COMMAND ${FLOTILLA_NVCC} --version OUTPUT_VARIABLE told ERROR_VARIABLE told)
      string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" _ "${told}")
      set(version "${CMAKE_MATCH_1}")
      set(why "${FLOTILLA_NVCC} is of CUDA ${version}, and ${FLOTILLA_OLDEST_CUDA} is needed")
    endif()
    if(NOT version OR version VERSION_LESS FLOTILLA_OLDEST_CUDA)
      set(version "")
      if(NOT FLOTILLA_CUDA STREQUAL "AUTO")
        message(FATAL_ERROR "FLOTILLA_CUDA is ${FLOTILLA_CUDA}, but ${why}")
      endif()
      message(STATUS "No CUDA kernels: ${why}")
    else()
      execute_process(COMMAND ${FLOTILLA_NVCC} --list-gpu-code OUTPUT_VARIABLE known)
      foreach(architecture IN LISTS FLOTILLA_CUDA_ARCHITECTURES)
        string(REGEX REPLACE "[af]$" "" number "${architecture}")
        if(known MATCHES "sm_${number}\n")
          list(APPEND codes ${architecture})
        endif()
      endforeach()
      message(STATUS "CUDA kernels: ${FLOTILLA_NVCC} ${version} for ${codes}")
    endif()
  endif()
  set(FLOTILLA_CUDA_VERSION "${version}" PARENT_SCOPE)
  set(FLOTILLA_CUDA_CODES "${codes}" PARENT_SCOPE)
endfunction()

# flotilla_nvcc(OUTPUT SOURCE -cubin|-ptx ARCHITECTURE what it depends on...): one command of the build.
function(flotilla_nvcc output source form architecture)
  add_custom_command(OUTPUT ${output} ${output}.log
    COMMAND ${CMAKE_COMMAND} -DNVCC=${FLOTILLA_NVCC} -DHOST=${CMAKE_CXX_COMPILER} "-DOPTIONS=${form};-arch=${architecture};-I${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../include"
      -DSOURCE=${source} -DOUTPUT=${output} -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/FlotillaNvcc.cmake
    DEPENDS ${source} ${ARGN} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/FlotillaNvcc.cmake
    COMMENT "CUDA kernels for ${architecture}" VERBATIM)
endfunction()

# flotilla_embed_kernels(SOURCES variable FOLDER folder-of-.cu-files DEPENDS further files)
#
# All kernels of a folder as one image for each architecture, and as PTX for devices after the last; written into a C++ source that defines
# flotilla::compute::cuda::built_kernels() and is appended to the variable. Without nvcc, the source says that there are none.
# FOLDER/kernels/sm_NN.cubin and its log (registers, spills) stay in the build folder.
function(flotilla_embed_kernels)
  cmake_parse_arguments(PARSE_ARGV 0 EMBED "" "SOURCES;FOLDER" "DEPENDS")
  flotilla_find_nvcc()
  set(there ${CMAKE_CURRENT_BINARY_DIR}/kernels)
  set(entries "")
  set(symbols "")
  set(images "")
  if(FLOTILLA_CUDA_CODES)
    file(GLOB parts CONFIGURE_DEPENDS ${EMBED_FOLDER}/*.cu)
    file(GLOB headers CONFIGURE_DEPENDS ${EMBED_FOLDER}/*.hpp ${EMBED_FOLDER}/*.inc)
    list(TRANSFORM parts REPLACE "(.+)" "#include \"\\1\"" OUTPUT_VARIABLE whole)
    list(JOIN whole "\n" whole)
    file(CONFIGURE OUTPUT ${there}/all_kernels.cu CONTENT "// Written by CMake: every kernel in one image.\n${whole}\n" @ONLY)
    list(GET FLOTILLA_CUDA_CODES -1 newest)
    foreach(code IN LISTS FLOTILLA_CUDA_CODES ITEMS ptx)
      if(code STREQUAL "ptx")
        string(REGEX REPLACE "[af]$" "" number ${newest})
        set(name compute_${number})
        set(form ptx)
        set(image ${there}/${name}.ptx)
        flotilla_nvcc(${image} ${there}/all_kernels.cu -ptx compute_${number} ${parts} ${headers} ${EMBED_DEPENDS})
      else()
        string(REGEX REPLACE "[af]$" "" number ${code})
        set(name sm_${code})
        set(form cubin)
        if(NOT code STREQUAL number)
          set(form exact_cubin)
        endif()
        set(image ${there}/${name}.cubin)
        flotilla_nvcc(${image} ${there}/all_kernels.cu -cubin sm_${code} ${parts} ${headers} ${EMBED_DEPENDS})
      endif()
      list(APPEND images ${image})
      string(APPEND symbols "asm(R\"(.section .rodata\n.balign 64\n.hidden flotilla_${name}, flotilla_${name}_end\n"
        ".globl flotilla_${name}, flotilla_${name}_end\nflotilla_${name}:\n.incbin \"${image}\"\nflotilla_${name}_end:\n.byte 0\n.previous\n)\");\n"
        "extern \"C\" __attribute__((visibility(\"hidden\"))) const std::byte flotilla_${name}[], flotilla_${name}_end[];\n")
      string(APPEND entries "      {${number}, KernelImage::Form::${form}, {flotilla_${name}, flotilla_${name}_end}},\n")
    endforeach()
  endif()
  set(source ${there}/built_kernels.cpp)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT "// Written by CMake (FlotillaCuda.cmake).\n#include \"cuda/built_kernels.hpp\"\n
${symbols}
namespace flotilla::compute::cuda {

BuiltKernels built_kernels() {
  return {\"${FLOTILLA_CUDA_VERSION}\", {
${entries}  }};
}

}  // namespace flotilla::compute::cuda
")
  set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON OBJECT_DEPENDS "${images}")
  set(${EMBED_SOURCES} ${${EMBED_SOURCES}} ${source} PARENT_SCOPE)
endfunction()
